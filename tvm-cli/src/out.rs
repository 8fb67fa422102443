//! Output to the terminal. A closed pipe is not an error; colours are used only on a terminal, and not if `NO_COLOR` is set.

use std::fmt;
use std::io::{self, Write};

use anstream::adapter::strip_str;
use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use tvm_codegen::Report;

use crate::error::Error;

/// Writes a line to standard output.
pub(crate) fn line(text: impl fmt::Display) {
    written(writeln!(io::stdout().lock(), "{text}"));
}

/// Writes a line to standard error.
pub(crate) fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Handles the result of a write. A closed pipe is ignored, because nobody reads the output; any other failure ends the
/// process with an error.
fn written(result: io::Result<()>) {
    if let Err(source) = result
        && source.kind() != io::ErrorKind::BrokenPipe
    {
        let err = Error::Io { path: "standard output".to_string(), source };
        error(&err);
        std::process::exit(err.exit().into());
    }
}

/// Writes bytes to standard output unchanged.
pub(crate) fn raw(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()));
}

/// Writes an error to standard error.
pub(crate) fn error(err: &Error) {
    let report = Report::of(err);
    let _ = writeln!(io::stderr().lock(), "{}", report.render(has_colours(&io::stderr())));
}

/// True if text in colour may be written to `stream`.
fn has_colours(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// Text colours.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Returns `text` in colour if standard output shows colours, else unchanged.
pub(crate) fn coloured(text: &str, colour: Colour) -> String {
    if has_colours(&io::stdout()) { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_string() }
}

/// Prints rows of cells; each column is as wide as its widest cell.
pub(crate) fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    // Codes of colours take no place.
    let length = |cell: &String| strip_str(cell).map(|part| part.chars().count()).sum::<usize>();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut text = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            text += &format!(" {cell}{:1$} ", "", width - length(cell));
        }
        line(text.trim_end());
    }
}

/// Formats a number of bytes for reading.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// A number for reading: `1.33 MFLOP`, `4.0 KiB`.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    if unit == "B" {
        return bytes(value.max(0.0) as u64);
    }
    let (scale, prefix) = match value.abs() {
        it if it >= 1e12 => (1e12, "T"),
        it if it >= 1e9 => (1e9, "G"),
        it if it >= 1e6 => (1e6, "M"),
        it if it >= 1e3 => (1e3, "k"),
        _ => return format!("{value:.0} {unit}"),
    };
    format!("{:.2} {prefix}{unit}", value / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_readable() {
        let cases = [(0.0, "FLOP", "0 FLOP"), (1.334e6, "FLOP", "1.33 MFLOP"), (4096.0, "B", "4.0 KiB")];
        for (value, unit, want) in cases {
            assert_eq!(amount(value, unit), want);
        }
    }
}
