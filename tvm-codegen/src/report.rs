//! Errors as a user reads them: each diagnostic with the source line that it points to, in colour on a terminal.
//!
//! TVM counterpart: `DiagnosticRenderer`.

use std::fmt;
use std::io::IsTerminal;

use tvm_core::ir::{Diagnose, Diagnostic};

/// The diagnostics of an error, shown with the source lines that they point to.
///
/// `main` may return it, as every error of the compiler converts to it:
///
/// ```
/// use tvm_codegen::{Report, compile};
/// # use tvm_core::target::Target;
/// # use tvm_core::tir::{PrimFunc, Stmt};
///
/// fn main() -> Result<(), Report> {
///     let func = PrimFunc::new("nothing", vec![], Stmt::seq([]));
///     let kernel = compile(&func, &Target::interpreter())?;
///     assert_eq!(kernel.name(), "nothing");
///     Ok(())
/// }
/// ```
///
/// `Display` and `Debug` write the same text, `Debug` in colour if standard error is a terminal and `NO_COLOR` is not set:
/// it is what a program writes whose `main` fails. Source lines are read from the files that the compiler of the program
/// named; without them, or without the feature `report`, places are shown as `file:line:column`.
pub struct Report(Vec<Diagnostic>);

impl Report {
    /// The report of `error`.
    pub fn of(error: &dyn Diagnose) -> Report {
        Report(error.diagnostics())
    }

    /// The diagnostics, at least one.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.0
    }

    /// The text, with ANSI colours if `colour` is set. The first line starts with `error: `.
    pub fn render(&self, colour: bool) -> String {
        render::text(&self.0, colour)
    }
}

impl<E: Diagnose> From<E> for Report {
    fn from(error: E) -> Report {
        Report::of(&error)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        f.write_str(&self.render(std::io::stderr().is_terminal() && !no_color))
    }
}

/// Reports something that slows the program down and is no error, as an event of `tracing`.
pub(crate) fn warn(message: fmt::Arguments<'_>) {
    #[cfg(feature = "report")]
    tracing::warn!("{message}");
    #[cfg(not(feature = "report"))]
    let _ = message;
}

#[cfg(feature = "report")]
mod render {
    //! Rendering with `annotate-snippets`.

    use std::ops::Range;

    use annotate_snippets::normalize_untrusted_str as clean;
    use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
    use tvm_core::ir::{Diagnostic, Note, Span};

    pub(super) fn text(diagnostics: &[Diagnostic], colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let groups: Vec<Group<'_>> = diagnostics.iter().flat_map(groups).collect();
        renderer.render(&groups)
    }

    /// The problem, and its notes that have places of their own.
    fn groups(diagnostic: &Diagnostic) -> Vec<Group<'_>> {
        let mut main =
            at(Group::with_title(Level::ERROR.primary_title(&diagnostic.message)), &diagnostic.span);
        let (placed, plain): (Vec<_>, Vec<_>) = diagnostic.notes.iter().partition(|it| !it.span.is_none());
        for note in plain {
            main = main.element(Level::NOTE.message(clean(&note.message)));
        }
        if let Some(help) = &diagnostic.help {
            main = main.element(Level::HELP.message(clean(help)));
        }
        if let Some(outline) = &diagnostic.outline {
            main = main.element(Level::NOTE.message(clean(&format!("in this loop nest:\n{outline}"))));
        }
        let title = |note: &Note| Group::with_title(Level::NOTE.secondary_title(clean(&note.message)));
        let notes = placed.into_iter().map(|note| at(title(note), &note.span));
        std::iter::once(main).chain(notes).collect()
    }

    /// Adds the source line of `span` to `group`, or its name where there is no such line.
    fn at<'a>(group: Group<'a>, span: &Span) -> Group<'a> {
        if span.is_none() {
            return group;
        }
        let Some((file, line, column)) = span.location() else {
            return group.element(Origin::path(clean(&span.to_string())));
        };
        let (file, line, column) = (file.to_string(), line as usize, column as usize);
        match source_line(&file, line) {
            Some(text) => {
                let statement = statement(&text, column);
                let annotation = AnnotationKind::Primary.span(statement);
                group.element(Snippet::source(text).line_start(line).path(file).annotation(annotation))
            }
            None => group.element(Origin::path(file).line(line).char_column(column)),
        }
    }

    /// Limit of the size of a source file in bytes.
    const MAX_BYTES: u64 = 16 << 20;

    /// Line `line` of `file`, counted from 1, if there is such a file.
    fn source_line(file: &str, line: usize) -> Option<String> {
        let meta = std::fs::metadata(file).ok().filter(|it| it.is_file() && it.len() < MAX_BYTES)?;
        let text = if meta.len() > 0 { std::fs::read_to_string(file).ok()? } else { return None };
        text.lines().nth(line.checked_sub(1)?).map(str::to_string)
    }

    /// The bytes of `text` from `column`, counted in characters from 1, to the end of the code on the line.
    fn statement(text: &str, column: usize) -> Range<usize> {
        let start = text.char_indices().nth(column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
        let code = text[start..].find("//").map_or(text, |comment| &text[..start + comment]);
        start..code.trim_end().len().max(start)
    }
}

#[cfg(not(feature = "report"))]
mod render {
    //! Rendering without source lines.

    use tvm_core::ir::Diagnostic;

    pub(super) fn text(diagnostics: &[Diagnostic], _colour: bool) -> String {
        diagnostics.iter().map(|it| format!("error: {it}")).collect::<Vec<_>>().join("\n")
    }
}
