//! Questions of tools to a person (`elicitation/create`): what is asked, and whether an answer fits
//! (specification, revision 2025-11-25, "Elicitation"). Decides nothing for the person.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

/// Bytes of a question that a person can be asked.
pub const QUESTION_BYTES: usize = 64 << 10;
/// Fields of a form.
const FIELDS: usize = 50;
/// Values of a field to choose from.
const OPTIONS: usize = 500;
/// Characters of a text where the tool sets no limit.
const TEXT: usize = 20_000;

/// What a tool asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// What it says. Untrusted.
    pub message: String,
    /// What it wants.
    pub wants: Wants,
}

/// What a tool wants of the person.
#[derive(Debug, Clone, PartialEq)]
pub enum Wants {
    /// Values.
    Form(Vec<Field>),
    /// That the person opens a page of somebody else's; accepting says that it was opened.
    Page {
        /// An absolute `http` or `https` URL. Untrusted.
        url: String,
    },
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name in the answer. Untrusted, as all texts here.
    pub name: String,
    /// For people; the name where there is none.
    pub title: String,
    /// For people.
    pub description: String,
    /// Whether an answer needs it.
    pub required: bool,
    /// What it may be.
    pub kind: Kind,
}

/// What a value may be.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A text.
    Text {
        /// `email`, `uri`, `date`, `date-time`, or nothing.
        format: Option<TextFormat>,
        /// Characters at least.
        least: usize,
        /// Characters at most, where the tool says so; never more than a page takes.
        most: Option<usize>,
        /// The proposed value.
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Without a fraction.
        whole: bool,
        /// The smallest.
        least: Option<f64>,
        /// The largest.
        most: Option<f64>,
        /// The proposed value.
        default: Option<Number>,
    },
    /// Yes or no.
    Flag {
        /// The proposed value.
        default: bool,
    },
    /// One of several.
    One {
        /// Values and what people read.
        options: Vec<Choice>,
        /// The proposed value.
        default: Option<String>,
    },
    /// Some of several.
    Some {
        /// Values and what people read.
        options: Vec<Choice>,
        /// How many at least.
        least: usize,
        /// How many at most.
        most: usize,
        /// The proposed values.
        default: Vec<String>,
    },
}

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// An address with an `@`.
    Email,
    /// An absolute URL.
    Uri,
    /// `2026-03-04`
    Date,
    /// `2026-03-04T05:06:07Z` (RFC 3339)
    DateTime,
}

/// One value to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The value.
    pub value: String,
    /// What people read.
    pub title: String,
}

impl Asked {
    /// Reads the parameters of `elicitation/create`; or says why no page can ask it, as a part of a sentence.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > QUESTION_BYTES {
            return Err("the question is too large");
        }
        let params: Value = serde_json::from_str(text).map_err(|_| "the question is no JSON")?;
        let message = text_of(&params, "message").unwrap_or_default();
        let wants = match params.get("mode").and_then(Value::as_str) {
            Some("url") => Wants::Page { url: page_url(&params).ok_or("the page of the question is no web page")? },
            None | Some("form") => Wants::Form(fields(&params)?),
            Some(_) => return Err("the question is of an unknown mode"),
        };
        Ok(Self { message, wants })
    }

    /// Whether an answer has content.
    #[must_use]
    pub fn is_form(&self) -> bool {
        matches!(self.wants, Wants::Form(_))
    }

    fn fields(&self) -> &[Field] {
        match &self.wants {
            Wants::Form(fields) => fields,
            Wants::Page { .. } => &[],
        }
    }

    /// The content of an answer that is JSON already: what was asked for, and nothing else. The error says what is wrong.
    pub fn content(&self, value: &Value) -> Result<Map<String, Value>, String> {
        let Value::Object(given) = value else { return Err("content has to be a JSON object.".to_owned()) };
        let fields = self.fields();
        if let Some(unknown) = given.keys().find(|key| !fields.iter().any(|field| field.name == **key)) {
            return Err(format!("nobody asked for {}.", cut(unknown)));
        }
        let mut content = Map::new();
        for field in fields {
            match given.get(&field.name) {
                Some(value) => {
                    field.check(value)?;
                    content.insert(field.name.clone(), value.clone());
                }
                None if field.required => return Err(format!("{} is missing.", cut(&field.title))),
                None => {}
            }
        }
        Ok(content)
    }

    /// The same from what a page's form sent: `sent` gives the texts of a field, by its place. A field that was left empty
    /// is not part of the answer.
    pub fn content_of_form<'f>(&self, sent: impl Fn(usize) -> Vec<&'f str>) -> Result<Map<String, Value>, String> {
        let mut content = Map::new();
        for (place, field) in self.fields().iter().enumerate() {
            if let Some(value) = field.read(&sent(place))? {
                content.insert(field.name.clone(), value);
            }
        }
        self.content(&Value::Object(content))
    }
}

impl Field {
    /// The value of what a form sent; `None` where it was left empty.
    fn read(&self, sent: &[&str]) -> Result<Option<Value>, String> {
        let first = sent.first().copied().unwrap_or_default();
        Ok(match &self.kind {
            // A box that is not ticked is not sent.
            Kind::Flag { .. } => Some(Value::Bool(!sent.is_empty())),
            Kind::Some { least, .. } if sent.is_empty() && (*least > 0 || !self.required) => None,
            Kind::Some { .. } => Some(sent.iter().map(|value| Value::from(*value)).collect()),
            // Empty is a text too, where one is required that may be empty.
            Kind::Text { least: 0, format: None, .. } if first.is_empty() && self.required => Some(Value::from("")),
            Kind::Text { .. } | Kind::Number { .. } | Kind::One { .. } if first.is_empty() => None,
            Kind::Text { .. } => Some(Value::String(first.replace("\r\n", "\n"))),
            Kind::One { .. } => Some(Value::from(first)),
            Kind::Number { .. } => {
                let number = serde_json::from_str::<Number>(first.trim());
                Some(Value::Number(number.map_err(|_| format!("{} has to be a number.", cut(&self.title)))?))
            }
        })
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let title = cut(&self.title);
        let wrong = |what: String| Err(format!("{title} {what}"));
        match (&self.kind, value) {
            (Kind::Text { format, least, most, .. }, Value::String(text)) => {
                let length = text.chars().count();
                if length < *least {
                    return wrong(format!("needs {least} characters at least."));
                }
                let most = most.unwrap_or(TEXT);
                if length > most {
                    return wrong(format!("may have {most} characters at most."));
                }
                match format {
                    Some(format) if !format.fits(text) => wrong(format!("has to be {}.", format.in_words())),
                    Some(_) | None => Ok(()),
                }
            }
            (Kind::Number { whole, least, most, .. }, Value::Number(number)) => {
                let Some(number) = number.as_f64().filter(|number| number.is_finite()) else {
                    return wrong("is too large a number.".to_owned());
                };
                if *whole && number.fract() != 0.0 {
                    return wrong("has to be a whole number.".to_owned());
                }
                match (least, most) {
                    (Some(least), _) if number < *least => wrong(format!("has to be {least} or more.")),
                    (_, Some(most)) if number > *most => wrong(format!("has to be {most} or less.")),
                    _ => Ok(()),
                }
            }
            (Kind::Flag { .. }, Value::Bool(_)) => Ok(()),
            (Kind::One { options, .. }, Value::String(text)) => {
                if options.iter().any(|option| option.value == *text) {
                    Ok(())
                } else {
                    wrong("has to be one of the choices.".to_owned())
                }
            }
            (Kind::Some { options, least, most, .. }, Value::Array(items)) => {
                let chosen: Option<BTreeSet<&str>> = items.iter().map(Value::as_str).collect();
                let known = |text: &&str| options.iter().any(|option| option.value == **text);
                let Some(chosen) = chosen.filter(|chosen| chosen.len() == items.len() && chosen.iter().all(known))
                else {
                    return wrong("has to be some of the choices, each at most once.".to_owned());
                };
                if chosen.len() < *least {
                    return wrong(format!("needs {least} choices at least."));
                }
                if chosen.len() > *most {
                    return wrong(format!("may have {most} choices at most."));
                }
                Ok(())
            }
            (Kind::Text { .. } | Kind::One { .. }, _) => wrong("has to be a text.".to_owned()),
            (Kind::Number { .. }, _) => wrong("has to be a number.".to_owned()),
            (Kind::Flag { .. }, _) => wrong("has to be true or false.".to_owned()),
            (Kind::Some { .. }, _) => wrong("has to be a list of texts.".to_owned()),
        }
    }
}

impl TextFormat {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "email" => Some(Self::Email),
            "uri" => Some(Self::Uri),
            "date" => Some(Self::Date),
            "date-time" => Some(Self::DateTime),
            _ => None,
        }
    }

    fn fits(self, text: &str) -> bool {
        match self {
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty() && host.contains('.') && !text.contains(char::is_whitespace) && !host.contains('@')
            }),
            Self::Uri => url::Url::parse(text).is_ok(),
            Self::Date => chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() && text.len() == 10,
            Self::DateTime => chrono::DateTime::parse_from_rfc3339(text).is_ok(),
        }
    }

    /// What it has to be, as a part of a sentence.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Email => "an e-mail address",
            Self::Uri => "an address such as https://example.com",
            Self::Date => "a date such as 2026-03-04",
            Self::DateTime => "a time such as 2026-03-04T05:06:07Z",
        }
    }
}

fn fields(params: &Value) -> Result<Vec<Field>, &'static str> {
    let schema = params.get("requestedSchema");
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let Some(properties) = properties else { return Err("the question has no form") };
    if properties.len() > FIELDS {
        return Err("its form has too many fields");
    }
    let required: Vec<&str> = schema
        .and_then(|schema| schema.get("required"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if required.iter().any(|name| !properties.contains_key(*name)) {
        return Err("its form requires a field that it does not have");
    }
    properties
        .iter()
        .map(|(name, schema)| {
            Ok(Field {
                name: name.clone(),
                title: text_of(schema, "title").filter(|title| !title.is_empty()).unwrap_or_else(|| name.clone()),
                description: text_of(schema, "description").unwrap_or_default(),
                required: required.contains(&name.as_str()),
                kind: kind_of(schema).ok_or("its form has a field that a page cannot show")?,
            })
        })
        .collect()
}

fn kind_of(schema: &Value) -> Option<Kind> {
    let default = schema.get("default");
    let size = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    Some(match schema.get("type").and_then(Value::as_str)? {
        "string" => match options_of(schema, "oneOf") {
            Some(options) => Kind::One { options: options?, default: default.and_then(text) },
            None => Kind::Text {
                format: schema.get("format").and_then(Value::as_str).and_then(TextFormat::parse),
                least: size("minLength").unwrap_or(0),
                most: size("maxLength").map(|most| most.min(TEXT)),
                default: default.and_then(text),
            },
        },
        kind @ ("number" | "integer") => Kind::Number {
            whole: kind == "integer",
            least: bound("minimum"),
            most: bound("maximum"),
            default: default
                .and_then(|value| if let Value::Number(number) = value { Some(number.clone()) } else { None }),
        },
        "boolean" => Kind::Flag { default: default.and_then(Value::as_bool).unwrap_or(false) },
        "array" => Kind::Some {
            options: options_of(schema.get("items")?, "anyOf")??,
            least: size("minItems").unwrap_or(0),
            most: size("maxItems").unwrap_or(OPTIONS),
            default: default.and_then(Value::as_array).into_iter().flatten().filter_map(text).collect(),
        },
        _ => return None,
    })
}

/// The values to choose from: `enum`, with `enumNames` in older servers, or titled ones under `titled`. `None` where there
/// are none, `Some(None)` where they cannot be used.
#[expect(clippy::option_option, reason = "no choice and a broken choice are two things")]
fn options_of(schema: &Value, titled: &str) -> Option<Option<Vec<Choice>>> {
    let named = schema.get(titled).and_then(Value::as_array).map(|entries| {
        entries
            .iter()
            .map(|entry| {
                let value = text_of(entry, "const")?;
                Some(Choice { title: text_of(entry, "title").unwrap_or_else(|| value.clone()), value })
            })
            .collect::<Option<Vec<_>>>()
    });
    let plain = || {
        let labels = schema.get("enumNames").and_then(Value::as_array);
        schema.get("enum").and_then(Value::as_array).map(|values| {
            let choice = |(place, value): (usize, &Value)| {
                let value = value.as_str()?.to_owned();
                let title = labels.and_then(|labels| labels.get(place)).and_then(Value::as_str);
                Some(Choice { title: title.unwrap_or(&value).to_owned(), value })
            };
            values.iter().enumerate().map(choice).collect::<Option<Vec<_>>>()
        })
    };
    named.or_else(plain).map(|options| options.filter(|options| (1..=OPTIONS).contains(&options.len())))
}

fn page_url(params: &Value) -> Option<String> {
    let text = params.get("url").and_then(Value::as_str)?;
    let url = url::Url::parse(text).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    // Who reads the address must not take a name in front of the host for the host.
    (is_web && url.username().is_empty() && url.password().is_none()).then(|| url.to_string())
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(ToOwned::to_owned)
}

/// Enough of a field's title to find it.
fn cut(title: &str) -> String {
    crate::protocol::text::shortened(title, 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(properties: &Value, required: &[&str]) -> Asked {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        Asked::parse(&json!({ "message": "m", "requestedSchema": schema }).to_string()).unwrap()
    }

    fn every_kind() -> Asked {
        let properties = json!({
            "name": { "type": "string", "title": "Name", "minLength": 2, "maxLength": 5 },
            "mail": { "type": "string", "format": "email" },
            "day": { "type": "string", "format": "date" },
            "age": { "type": "integer", "minimum": 1, "maximum": 120, "default": 30 },
            "share": { "type": "number" },
            "agree": { "type": "boolean", "default": true },
            "colour": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] },
            "size": { "type": "string", "oneOf": [{ "const": "s", "title": "Small" }, { "const": "l" }] },
            "tags": { "type": "array", "minItems": 1, "maxItems": 2, "items": { "type": "string", "enum": ["a", "b", "c"] } },
            "more": { "type": "array", "items": { "anyOf": [{ "const": "x", "title": "The X" }] } },
        });
        form(&properties, &["name", "tags"])
    }

    #[test]
    fn fields_come_in_the_tools_order_with_titles() {
        let asked = every_kind();
        let names: Vec<&str> = asked.fields().iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["name", "mail", "day", "age", "share", "agree", "colour", "size", "tags", "more"]);
        let Kind::One { options, .. } = &asked.fields()[6].kind else { panic!("a choice") };
        assert_eq!(options[1], Choice { value: "g".to_owned(), title: "Green".to_owned() });
        assert!(asked.fields()[0].required && !asked.fields()[1].required);
    }

    #[test]
    fn what_fits_is_taken_as_it_is() {
        let content = json!({ "name": "Ada", "mail": "a@b.example", "age": 36, "agree": false, "colour": "g", "tags": ["a", "c"] });
        assert_eq!(Value::Object(every_kind().content(&content).unwrap()), content);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let base = json!({ "name": "Ada", "tags": ["a"] });
        assert!(every_kind().content(&base).is_ok());
        for (change, problem) in [
            (json!({ "name": "A" }), "Name needs 2 characters at least."),
            (json!({ "name": "Adalyn" }), "Name may have 5 characters at most."),
            (json!({ "name": 7 }), "Name has to be a text."),
            (json!({ "mail": "nobody" }), "mail has to be an e-mail address."),
            (json!({ "day": "04.03.2026" }), "day has to be a date such as 2026-03-04."),
            (json!({ "age": 0 }), "age has to be 1 or more."),
            (json!({ "age": 121 }), "age has to be 120 or less."),
            (json!({ "age": 1.5 }), "age has to be a whole number."),
            (json!({ "age": "7" }), "age has to be a number."),
            (json!({ "agree": "yes" }), "agree has to be true or false."),
            (json!({ "colour": "Green" }), "colour has to be one of the choices."),
            (json!({ "tags": [] }), "tags needs 1 choices at least."),
            (json!({ "tags": ["a", "b", "c"] }), "tags may have 2 choices at most."),
            (json!({ "tags": ["a", "a"] }), "tags has to be some of the choices, each at most once."),
            (json!({ "tags": ["z"] }), "tags has to be some of the choices, each at most once."),
            (json!({ "other": 1 }), "nobody asked for other."),
        ] {
            let mut content = base.clone();
            content.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_eq!(every_kind().content(&content).unwrap_err(), problem, "{change}");
        }
        assert_eq!(every_kind().content(&json!({ "tags": ["a"] })).unwrap_err(), "Name is missing.");
        assert!(every_kind().content(&json!([])).is_err());
    }

    #[test]
    fn a_form_of_a_page_becomes_values_of_the_right_kind() {
        let sent = |place: usize| match place {
            0 => vec!["Ada"],
            3 => vec![" 36 "],
            4 => vec!["0.10"],
            5 => vec!["on"],
            6 => vec!["r"],
            8 => vec!["a", "b"],
            _ => vec![""],
        };
        let sent = |place| if place == 9 { Vec::new() } else { sent(place) };
        let content = every_kind().content_of_form(sent).unwrap();
        let expected = r#"{"name":"Ada","age":36,"share":0.10,"agree":true,"colour":"r","tags":["a","b"]}"#;
        assert_eq!(Value::Object(content).to_string(), expected);
        let problem = every_kind().content_of_form(|place| if place == 3 { vec!["many"] } else { vec![] }).unwrap_err();
        assert_eq!(problem, "age has to be a number.");
        let problem = every_kind().content_of_form(|place| if place == 0 { vec!["Ada"] } else { vec![] }).unwrap_err();
        assert_eq!(problem, "tags is missing.");
    }

    #[test]
    fn what_no_page_can_show_is_not_asked() {
        for params in [
            json!({ "message": "m" }),
            json!({ "message": "m", "requestedSchema": { "properties": { "a": { "type": "object" } } } }),
            json!({ "message": "m", "requestedSchema": { "properties": { "a": { "type": "array", "items": { "type": "string" } } } } }),
            json!({ "message": "m", "requestedSchema": { "properties": { "a": { "type": "string", "enum": [] } } } }),
            json!({ "message": "m", "requestedSchema": { "properties": { "a": { "type": "string", "enum": [1] } } } }),
            json!({ "message": "m", "requestedSchema": { "properties": {}, "required": ["a"] } }),
            json!({ "mode": "voice" }),
            json!({ "mode": "url", "url": "javascript:alert(1)" }),
            json!({ "mode": "url", "url": "https://bank.example@evil.example/" }),
            json!({ "mode": "url" }),
        ] {
            assert!(Asked::parse(&params.to_string()).is_err(), "{params}");
        }
        assert!(Asked::parse(&format!("\"{}\"", "x".repeat(QUESTION_BYTES))).is_err());
        let page = Asked::parse(r#"{"mode":"url","url":"https://example.com/x","message":"m"}"#).unwrap();
        assert_eq!(page.wants, Wants::Page { url: "https://example.com/x".to_owned() });
        assert!(!page.is_form());
    }
}
