"""Request bodies: their fields (`shapes`), and how to read them from several formats (`reading`)."""
