//! Gray pictures: PNG files, letters, parts and other sizes of them.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

/// Largest number of pixels of a picture that is read.
const MAX_PIXELS: u64 = 64 << 20;

/// Pixels row by row, 0 to 255.
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<u8>,
}

/// A rectangle of pixels; right and bottom are outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: usize,
    pub(crate) top: usize,
    pub(crate) right: usize,
    pub(crate) bottom: usize,
}

impl Picture {
    /// A picture that becomes darker from left to right.
    pub(crate) fn new(width: usize, height: usize) -> Picture {
        let shade = |i: usize| 245 - (i % width * 30 / width) as u8;
        Picture { width, height, pixels: (0..width * height).map(shade).collect() }
    }

    /// Draws `text` in dark letters; what is outside of the picture is cut off.
    pub(crate) fn draw(&mut self, text: &str, left: usize, top: usize, size: RasterHeight) {
        let step = get_raster_width(FontWeight::Regular, size);
        for (i, letter) in text.chars().enumerate() {
            let Some(letter) = get_raster(letter, FontWeight::Regular, size) else { continue };
            for (y, row) in letter.rows().enumerate() {
                for (x, ink) in row.iter().enumerate() {
                    let (x, y) = (left + i * step + x, top + y);
                    if x < self.width && y < self.height {
                        let pixel = &mut self.pixels[y * self.width + x];
                        *pixel = (u32::from(*pixel) * (280 - u32::from(*ink)) / 280) as u8;
                    }
                }
            }
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Picture, Box<dyn Error>> {
        let mut decoder = png::Decoder::new(BufReader::new(File::open(path)?));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        let (width, height) = reader.info().size();
        if u64::from(width) * u64::from(height) > MAX_PIXELS {
            return Err(format!("{width} by {height} pixels, at most {MAX_PIXELS} in all").into());
        }
        let mut bytes = vec![0; reader.output_buffer_size().ok_or("the picture is too large")?];
        reader.next_frame(&mut bytes)?;
        let samples = reader.output_color_type().0.samples();
        let gray = |pixel: &[u8]| match pixel {
            [red, green, blue, ..] => {
                ((u32::from(*red) * 299 + u32::from(*green) * 587 + u32::from(*blue) * 114) / 1000) as u8
            }
            other => other.first().copied().unwrap_or(0),
        };
        let pixels = bytes.chunks_exact(samples).map(gray).collect();
        Ok(Picture { width: width as usize, height: height as usize, pixels })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let file = BufWriter::new(File::create(path)?);
        let mut encoder = png::Encoder::new(file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.write_header()?.write_image_data(&self.pixels)?;
        Ok(())
    }

    pub(crate) fn whole(&self) -> Area {
        Area { left: 0, top: 0, right: self.width, bottom: self.height }
    }

    /// The part in `area` at another size, for a model: values of -1 to 1. A pixel is the mean of the four that are nearest.
    pub(crate) fn scaled(&self, area: Area, width: usize, height: usize) -> Vec<f32> {
        let place = |i: usize, n: usize, from: usize, to: usize| {
            let at =
                ((i as f32 + 0.5) * (to - from) as f32 / n as f32 - 0.5).clamp(0.0, (to - from - 1) as f32);
            let low = at as usize;
            (from + low, from + (low + 1).min(to - from - 1), at - low as f32)
        };
        let columns: Vec<_> = (0..width).map(|x| place(x, width, area.left, area.right)).collect();
        let mut res = Vec::with_capacity(width * height);
        for y in 0..height {
            let (above, below, down) = place(y, height, area.top, area.bottom);
            let pixel = |x: usize, y: usize| f32::from(self.pixels[y * self.width + x]);
            res.extend(columns.iter().map(|&(left, right, along)| {
                let first = pixel(left, above) * (1.0 - along) + pixel(right, above) * along;
                let second = pixel(left, below) * (1.0 - along) + pixel(right, below) * along;
                (first * (1.0 - down) + second * down) / 127.5 - 1.0
            }));
        }
        res
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_the_pixels() {
        let path = std::env::temp_dir().join(format!("ocr_picture_{}.png", std::process::id()));
        let mut picture = Picture::new(60, 30);
        picture.draw("ab", 2, 2, RasterHeight::Size20);
        picture.write(&path).unwrap();
        let read = Picture::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((read.width, read.height), (60, 30));
        assert!(read.pixels == picture.pixels);
        assert!(read.pixels.iter().any(|it| *it < 60), "there are letters");
    }

    #[test]
    fn parts_are_scaled() {
        let pixels = vec![0, 255, 0, 255, 255, 0, 255, 0];
        let picture = Picture { width: 4, height: 2, pixels };
        let part = Area { left: 1, top: 0, right: 3, bottom: 2 };
        assert_eq!(picture.scaled(part, 2, 2), [1.0, -1.0, -1.0, 1.0]);
        assert_eq!(picture.scaled(part, 1, 1), [0.0]);
        assert_eq!(picture.scaled(picture.whole(), 4, 2).len(), 8);
        assert_eq!(picture.scaled(Area { left: 0, top: 0, right: 1, bottom: 1 }, 3, 1), [-1.0; 3]);
    }
}
