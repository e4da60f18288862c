//! What a tool asks a person, as fields of the approval page's form.

use serde_json::Value;

use super::json::json;
use super::markup::{Html, block, inline, line};
use super::text::{Piece, visible};
use crate::console::approval::QuestionView;
use crate::session::form::{Asked, Choice, Field, Kind, TextFormat, Wants};

/// Characters of a text from which on its field has several lines.
const AREA: usize = 200;

pub(super) struct QuestionPart {
    pub(super) message: Option<Html>,
    pub(super) page: Option<PagePart>,
    /// Empty where it cannot be answered.
    pub(super) fields: Vec<FieldPart>,
    pub(super) content: Option<Html>,
    pub(super) withdrawn: bool,
}

/// A page that the tool wants to be opened.
pub(super) struct PagePart {
    pub(super) href: String,
    pub(super) url: Html,
    pub(super) host: Html,
}

pub(super) struct FieldPart {
    /// Its id and name: what a browser sends, never what the tool calls it.
    pub(super) name: String,
    pub(super) title: Html,
    pub(super) description: Option<Html>,
    pub(super) hint: String,
    /// `line`, `area`, `tick`, `one` or `many`.
    pub(super) shape: &'static str,
    /// Of a line: the `type`, and the keyboard for it.
    pub(super) kind: (&'static str, &'static str),
    pub(super) value: String,
    pub(super) on: bool,
    pub(super) options: Vec<OptionPart>,
}

pub(super) struct OptionPart {
    pub(super) value: String,
    pub(super) title: Html,
    pub(super) on: bool,
}

/// The name of a field in the form.
pub(super) fn field_name(call: u32, place: usize) -> String {
    format!("field-{call}-{place}")
}

/// The question of a call. `sent` are the fields of a form that was not taken, to be shown again.
pub(super) fn question_part(
    call: u32,
    view: &QuestionView,
    open: bool,
    sent: Option<&[(String, String)]>,
) -> QuestionPart {
    let asked = Asked::parse(&view.asked.to_string()).ok();
    let message = view.asked.get("message").and_then(Value::as_str).filter(|message| !message.is_empty());
    let (page, fields) = match asked.map(|asked| asked.wants) {
        Some(Wants::Form(fields)) if open => (
            None,
            fields.iter().enumerate().map(|(place, field)| field_part(field, field_name(call, place), sent)).collect(),
        ),
        Some(Wants::Page { url }) => (page_part(url), Vec::new()),
        Some(Wants::Form(_)) | None => (None, Vec::new()),
    };
    QuestionPart {
        message: message.map(block),
        page,
        fields,
        content: view.content.as_deref().map(json),
        withdrawn: view.withdrawn,
    }
}

fn page_part(url: String) -> Option<PagePart> {
    let host = url::Url::parse(&url).ok()?.host_str()?.to_owned();
    Some(PagePart { url: line(&url), host: inline(&host), href: url })
}

fn field_part(field: &Field, name: String, sent: Option<&[(String, String)]>) -> FieldPart {
    let again: Option<Vec<&str>> =
        sent.map(|sent| sent.iter().filter(|(sent, _)| *sent == name).map(|(_, value)| value.as_str()).collect());
    let text = |default: Option<&str>| match &again {
        Some(again) => again.first().copied().unwrap_or_default().to_owned(),
        // What nobody would see is not proposed.
        None => default.filter(|text| is_visible(text)).unwrap_or_default().to_owned(),
    };
    let mut part = FieldPart {
        title: inline(&field.title),
        description: (!field.description.is_empty()).then(|| block(&field.description)),
        hint: hint(field),
        shape: "line",
        kind: ("text", "text"),
        value: String::new(),
        on: false,
        options: Vec::new(),
        name,
    };
    match &field.kind {
        Kind::Text { format, most, default, .. } => {
            part.value = text(default.as_deref());
            match format {
                Some(TextFormat::Email) => part.kind = ("email", "email"),
                Some(TextFormat::Uri) => part.kind = ("url", "url"),
                Some(TextFormat::Date) => part.kind = ("date", "text"),
                None if most.is_some_and(|most| most > AREA) => part.shape = "area",
                Some(TextFormat::DateTime) | None => {}
            }
        }
        // Not of the type `number`: a browser sends nothing for what it does not take for one.
        Kind::Number { whole, default, .. } => {
            part.kind = ("text", if *whole { "numeric" } else { "decimal" });
            part.value = text(default.as_ref().map(ToString::to_string).as_deref());
        }
        Kind::Flag { default } => {
            part.shape = "tick";
            part.on = again.as_ref().map_or(*default, |again| !again.is_empty());
        }
        Kind::One { options, default } => {
            part.shape = "one";
            let chosen = text(default.as_deref());
            part.options = option_parts(options, |value| value == chosen);
        }
        Kind::Some { options, default, .. } => {
            part.shape = "many";
            part.options = option_parts(options, |value| match &again {
                Some(again) => again.contains(&value),
                None => default.iter().any(|chosen| chosen == value),
            });
        }
    }
    part
}

fn option_parts(options: &[Choice], on: impl Fn(&str) -> bool) -> Vec<OptionPart> {
    let part = |option: &Choice| OptionPart {
        title: inline(&option.title),
        on: on(&option.value),
        value: option.value.clone(),
    };
    options.iter().map(part).collect()
}

fn is_visible(text: &str) -> bool {
    !visible(text).iter().any(|piece| matches!(piece, Piece::Hidden(_)))
}

/// What the value has to be, in a few words of the gateway's own.
fn hint(field: &Field) -> String {
    let mut words: Vec<String> = Vec::new();
    if !field.required && !matches!(field.kind, Kind::Flag { .. }) {
        words.push("optional".to_owned());
    }
    match &field.kind {
        Kind::Text { format: Some(format), .. } => words.push(format.in_words().to_owned()),
        Kind::Text { least, .. } if *least > 1 => words.push(format!("{least} characters at least")),
        Kind::Number { whole, least, most, .. } => {
            words.push(if *whole { "a whole number" } else { "a number" }.to_owned());
            words.extend(least.map(|least| format!("{least} or more")));
            words.extend(most.map(|most| format!("{most} or less")));
        }
        Kind::Some { least, most, options, .. } => {
            if *least > 0 {
                words.push(format!("{least} at least"));
            }
            if *most < options.len() {
                words.push(format!("{most} at most"));
            }
        }
        Kind::Text { .. } | Kind::Flag { .. } | Kind::One { .. } => {}
    }
    words.join(", ")
}
