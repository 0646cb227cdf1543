/** Drawings are kept as light ink on black; on light paper they are shown as dark ink. */

const BLACK = 26; // of 255

/** Whether most of a picture's outermost pixels are black: a drawing, and no photograph. */
export function isDrawing(image) {
  const [width, height] = [image.naturalWidth, image.naturalHeight];
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  let [edge, black] = [0, 0];
  for (let y = 0; y < height; y++) {
    const step = y === 0 || y === height - 1 ? 1 : Math.max(width - 1, 1);
    for (let x = 0; x < width; x += step) {
      edge += 1;
      black += data[4 * (y * width + x)] < BLACK;
    }
  }
  return 2 * black > edge;
}
