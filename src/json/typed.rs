//! Typed values from JSON by way of [`Value`]: a fraction of the code that `serde_json` makes of each type when it reads text, where
//! every type has its own loops over characters and, for a struct, over arrays too, as which a struct is never written.

#![expect(clippy::wildcard_enum_match_arm, reason = "whatever else a value is does not fit")]

use serde::de::{DeserializeSeed, Deserializer, Error as _, Expected, Unexpected, Visitor};
use serde::de::{EnumAccess, MapAccess, SeqAccess, VariantAccess};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Number, Value};

type Result<T> = std::result::Result<T, Error>;

/// A value that something is read from.
pub(super) struct Typed(pub(super) Value);

#[cold]
#[inline(never)]
fn wrong(found: &Value, expected: &dyn Expected) -> Error {
    let found = match found {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("a number"),
        Value::String(_) => Unexpected::Other("a string"),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    Error::invalid_type(found, expected)
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value> {
    if let Some(value) = number.as_u64() {
        visitor.visit_u64(value)
    } else if let Some(value) = number.as_i64() {
        visitor.visit_i64(value)
    } else if let Some(value) = number.as_f64() {
        visitor.visit_f64(value)
    } else {
        Err(Error::custom("the number is out of range"))
    }
}

macro_rules! numbers {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match &self.0 {
                Value::Number(number) => visit_number(number, visitor),
                other => Err(wrong(other, &visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Typed {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            // With all its digits, as `serde_json` hands numbers over.
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(Items(items.into_iter())),
            Value::Object(members) => visitor.visit_map(Members { rest: members.into_iter(), value: None }),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Bool(value) => visitor.visit_bool(value),
            other => Err(wrong(&other, &visitor)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            other => Err(wrong(&other, &visitor)),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_string(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            other => visitor.visit_some(Self(other)),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            other => Err(wrong(&other, &visitor)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items(items.into_iter())),
            other => Err(wrong(&other, &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Object(members) => visitor.visit_map(Members { rest: members.into_iter(), value: None }),
            other => Err(wrong(&other, &visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let variant = match self.0 {
            Value::String(name) => Some((name, None)),
            Value::Object(members) if members.len() == 1 => {
                members.into_iter().next().map(|(name, value)| (name, Some(value)))
            }
            other => return Err(wrong(&other, &visitor)),
        };
        match variant {
            Some((name, value)) => visitor.visit_enum(Variant { name, value }),
            None => Err(wrong(&Value::Null, &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { i128 u128 char bytes byte_buf unit_struct }
}

struct Items(std::vec::IntoIter<Value>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.0.next() {
            Some(item) => seed.deserialize(Typed(item)).map(Some),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Members {
    rest: serde_json::map::IntoIter,
    value: Option<Value>,
}

impl<'de> MapAccess<'de> for Members {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        match self.rest.next() {
            Some((name, value)) => {
                self.value = Some(value);
                seed.deserialize(Key(name)).map(Some)
            }
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(Typed(self.value.take().unwrap_or_default()))
    }
}

/// The name of a member; a number where the type has numbers for keys.
struct Key(String);

macro_rules! keys {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match self.0.parse::<u64>() {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => visitor.visit_string(self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_string(self.0)
    }

    keys! { deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        Typed(Value::String(self.0)).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Variant {
    name: String,
    value: Option<Value>,
}

impl<'de> EnumAccess<'de> for Variant {
    type Error = Error;
    type Variant = Content;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content)> {
        Ok((seed.deserialize(Key(self.name))?, Content(self.value)))
    }
}

struct Content(Option<Value>);

impl<'de> VariantAccess<'de> for Content {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        match self.0 {
            None | Some(Value::Null) => Ok(()),
            Some(other) => Err(wrong(&other, &"a variant without content")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        match self.0 {
            Some(value) => seed.deserialize(Typed(value)),
            None => Err(wrong(&Value::Null, &"a variant with content")),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        Typed(self.0.unwrap_or_default()).deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        Typed(self.0.unwrap_or_default()).deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::super::{from_str, from_value};
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Everything {
        text: String,
        shared: Rc<str>,
        small: u8,
        signed: i64,
        large: u64,
        real: f64,
        flag: bool,
        #[serde(default)]
        absent: Option<u32>,
        null: Option<String>,
        nested: Option<Box<Everything>>,
        pair: (String, u32),
        list: Vec<Named>,
        by_number: BTreeMap<u32, String>,
        by_name: BTreeMap<String, Vec<u8>>,
        any: Value,
        unit: (),
        wrapped: Wrapped,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Wrapped(u64);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Named {
        Unit,
        One(String),
        Two(u8, bool),
        Fields { a: u32, b: Option<String> },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Tagged {
        First { value: u64 },
        Second,
    }

    fn everything() -> Everything {
        Everything {
            text: "ä😀\"".to_owned(),
            shared: "s".into(),
            small: 255,
            signed: i64::MIN,
            large: u64::MAX,
            real: -0.5e-9,
            flag: true,
            absent: Some(7),
            null: None,
            nested: None,
            pair: ("p".to_owned(), 2),
            list: vec![
                Named::Unit,
                Named::One("o".to_owned()),
                Named::Two(1, false),
                Named::Fields { a: 3, b: Some("b".to_owned()) },
            ],
            by_number: BTreeMap::from([(3, "three".to_owned())]),
            by_name: BTreeMap::from([("x".to_owned(), vec![1, 2])]),
            any: serde_json::from_str(r#"{"n":123456789012345678901234567890.5,"e":1e400,"l":[null,true]}"#).unwrap(),
            unit: (),
            wrapped: Wrapped(9),
        }
    }

    #[test]
    fn what_serde_json_writes_is_read_the_same() {
        let value = Everything { nested: Some(Box::new(everything())), ..everything() };
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(from_str::<Everything>(&text).unwrap(), value);
        assert_eq!(serde_json::from_str::<Everything>(&text).unwrap(), value);
        // With every digit.
        assert_eq!(serde_json::to_string(&from_str::<Everything>(&text).unwrap()).unwrap(), text);
    }

    #[test]
    fn tagged_variants_are_read() {
        for value in [Tagged::First { value: u64::MAX }, Tagged::Second] {
            let text = serde_json::to_string(&value).unwrap();
            assert_eq!(from_str::<Tagged>(&text).unwrap(), value);
        }
        assert_eq!(from_str::<Result1>(r#"{"Err":[1]}"#).unwrap(), Err(json!([1])));
    }

    type Result1 = std::result::Result<String, Value>;

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = |result: Result<Everything>| result.unwrap_err().to_string();
        assert!(error(from_str("{")).contains("EOF"), "{}", error(from_str("{")));
        assert!(error(from_str("[]")).contains("expected struct Everything"), "{}", error(from_str("[]")));
        assert!(error(from_str("{}")).contains("missing field `text`"));
        assert!(error(from_str("{\"text\":1}")).contains("expected a string"));
        for (text, named) in
            [("1", false), ("\"unit\"", true), ("\"none\"", false), ("{\"one\":1}", false), ("{}", false)]
        {
            assert_eq!(from_str::<Named>(text).is_ok(), named, "{text}");
        }
        for text in ["256", "-1", "1.5", "1e3", "\"1\"", "null"] {
            assert!(from_str::<u8>(text).is_err(), "{text}");
        }
        assert!(from_str::<(String, u32)>("[\"a\"]").is_err());
        assert_eq!(from_value::<Named>(json!({ "fields": { "a": 1 } })).unwrap(), Named::Fields { a: 1, b: None });
    }
}
