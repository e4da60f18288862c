use proptest::prelude::*;
use serde_json::{Value, json};

use super::tool::{ToolError, ToolOutcome};
use crate::json::canonical_json;

#[test]
fn canonical_text_is_sorted_and_keeps_digits() {
    for (value, expected) in [
        (
            r#"{ "b" : [1.10, 1E+5, null], "a": {"z":true,"aa":"ü\n\"","a":false} }"#,
            r#"{"a":{"a":false,"aa":"ü\n\"","z":true},"b":[1.10,1e+5,null]}"#,
        ),
        (r#"{"é":1,"z":2,"𝄞":3,"\uffee":4}"#, "{\"z\":2,\"é\":1,\"\u{ffee}\":4,\"𝄞\":3}"),
        ("12345678901234567890123456789.0", "12345678901234567890123456789.0"),
        ("[]", "[]"),
        ("{}", "{}"),
    ] {
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(canonical_json(&value), expected);
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".*", inner), 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().rev().map(|(key, member)| (key.clone(), reversed(member))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn canonical_text_is_the_same_value_and_does_not_depend_on_order(value in any_value()) {
        let text = canonical_json(&value);
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &value);
        prop_assert_eq!(canonical_json(&reversed(&value)), text);
    }
}

#[test]
fn outcomes_have_exactly_the_documented_members() {
    let error =
        ToolError { status: Some(404), details: None, retryable: Some(false), ..ToolError::new("http_error", "no") };
    for (outcome, expected) in [
        (ToolOutcome::success(&json!({ "n": 1 })), r#"{"ok":true,"data":{"n":1}}"#),
        (ToolOutcome::success(&Value::Null), r#"{"ok":true,"data":null}"#),
        (ToolOutcome::failure("declined", "no"), r#"{"ok":false,"error":{"code":"declined","message":"no"}}"#),
        (
            ToolOutcome::Failure(error),
            r#"{"ok":false,"error":{"code":"http_error","message":"no","status":404,"retryable":false}}"#,
        ),
    ] {
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<ToolOutcome>(&text).unwrap(), outcome);
    }
    for broken in [r#"{"ok":false}"#, r#"{"ok":true,"error":{"code":"x","message":"y"}}"#, "{}", "[]"] {
        assert!(serde_json::from_str::<ToolOutcome>(broken).is_err(), "{broken}");
    }
}
