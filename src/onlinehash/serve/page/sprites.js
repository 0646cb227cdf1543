/**
 * The items' pictures as the map draws them: ink in the colour of its group, or, where a picture has colours of its
 * own, the picture as it is.
 */

const AT_ONCE = 12; // pictures on their way at a time

export class Sprites {
  /** api.picture(id) promises an address; ready() is called when another picture has come. */
  constructor(api, ready) {
    this.api = api;
    this.ready = ready;
    this.pictures = new Map(); // id -> {image, ink} or null while it is on its way
    this.tinted = new Map(); // id -> {colour, canvas}
    this.waiting = [];
    this.running = 0;
  }

  /** Keep the pictures of these items and no others. */
  want(ids) {
    const wanted = new Set(ids);
    for (const kept of [this.pictures, this.tinted]) for (const id of kept.keys()) if (!wanted.has(id)) kept.delete(id);
    this.waiting = ids.filter((id) => !this.pictures.has(id));
    while (this.running < AT_ONCE && this.waiting.length) this.work();
  }

  async work() {
    this.running++;
    while (this.waiting.length) {
      const id = this.waiting.shift();
      if (this.pictures.has(id)) continue;
      this.pictures.set(id, null);
      try {
        const image = await loaded(await this.api.picture(id));
        this.pictures.set(id, { image, ink: inkOf(image) });
        this.ready();
      } catch {
        this.pictures.set(id, null); // an item without a picture stays a dot
      }
    }
    this.running--;
  }

  /** What to draw for an item: {image, ink} with a canvas or image in it, or null. */
  get(id, colour) {
    const picture = this.pictures.get(id);
    if (!picture) return null;
    if (!picture.ink) return picture;
    const known = this.tinted.get(id);
    if (known?.colour === colour) return known;
    const made = { colour, ink: true, image: tint(picture.ink, colour) };
    this.tinted.set(id, made);
    return made;
  }
}

function loaded(url) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = reject;
    image.src = url;
  });
}

/** Dark strokes on light paper, without any colour: a canvas that is as opaque as there is ink. Else null. */
function inkOf(image) {
  const [canvas, context] = blank(image.naturalWidth, image.naturalHeight);
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  const { data } = pixels;
  let light = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 8) return null;
    light += data[i];
  }
  const inverted = light / (data.length / 4) < 128; // light strokes on dark paper
  for (let i = 0; i < data.length; i += 4) data[i + 3] = inverted ? data[i] : 255 - data[i];
  context.putImageData(pixels, 0, 0);
  return canvas;
}

function tint(ink, colour) {
  const [canvas, context] = blank(ink.width, ink.height);
  context.drawImage(ink, 0, 0);
  context.globalCompositeOperation = "source-in";
  context.fillStyle = colour;
  context.fillRect(0, 0, canvas.width, canvas.height);
  return canvas;
}

function blank(width, height) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  return [canvas, canvas.getContext("2d", { willReadFrequently: true })];
}
