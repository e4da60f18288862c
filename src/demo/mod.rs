//! The built-in `demo` source: a small inventory API, so that everything can be tried with nothing
//! else running. Present in development mode only.
//!
//! Pure: a request and the stored items go in, an answer and what to store come out.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The slug of the source.
pub const SLUG: &str = "demo";
/// Its `OpenAPI` document.
pub const DOCUMENT: &str = include_str!("openapi.json");
/// Bytes of an item's text fields.
const TEXT_LIMIT: usize = 200;
/// Items that the inventory holds.
const ITEM_LIMIT: usize = 1_000;

/// One thing in the inventory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Such as `item-3`.
    pub id: String,
    /// What it is.
    pub name: String,
    /// How many there are.
    pub quantity: u64,
    /// Where it is.
    pub location: String,
}

/// What is stored of the inventory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Everything in it, oldest first.
    pub items: Vec<Item>,
    /// The number of the next item.
    pub next: u64,
    /// How often each operation really ran.
    pub calls: Calls,
}

/// How often each operation ran. A repeated request with the same idempotency key does not count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Calls {
    /// `GET /items`
    pub list_items: u64,
    /// `GET /items/{id}`
    pub get_item: u64,
    /// `POST /items`
    pub create_item: u64,
    /// `PATCH /items/{id}`
    pub update_item: u64,
    /// `DELETE /items/{id}`
    pub delete_item: u64,
}

impl Default for Inventory {
    fn default() -> Self {
        let item = |number: u64, name: &str, quantity, location: &str| Item {
            id: format!("item-{number}"),
            name: name.to_owned(),
            quantity,
            location: location.to_owned(),
        };
        Self {
            items: vec![
                item(1, "Laptop stand", 12, "Berlin"),
                item(2, "USB-C cable", 240, "Berlin"),
                item(3, "Broken keyboard", 3, "Lisbon"),
                item(4, "Monitor 27\"", 18, "Lisbon"),
                item(5, "Broken mouse", 7, "Oslo"),
            ],
            next: 6,
            calls: Calls::default(),
        }
    }
}

/// What the API answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body; none for 204.
    pub body: Option<Value>,
}

impl Answer {
    fn ok(body: Value) -> Self {
        Self { status: 200, body: Some(body) }
    }

    fn error(status: u16, message: &str) -> Self {
        Self { status, body: Some(json!({ "message": message })) }
    }
}

/// The fields of `POST` and `PATCH`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemFields {
    name: Option<String>,
    quantity: Option<u64>,
    location: Option<String>,
}

/// Handles one request. `path` is what follows `/demo`, `query` is decoded.
pub fn handle(inventory: &mut Inventory, method: &str, path: &str, query: &[(String, String)], body: &[u8]) -> Answer {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (method, segments.as_slice()) {
        ("GET", ["items"]) => {
            inventory.calls.list_items += 1;
            list(inventory, query)
        }
        ("POST", ["items"]) => create(inventory, body),
        ("GET", ["items", id]) => {
            inventory.calls.get_item += 1;
            let found = inventory.items.iter().find(|item| item.id == *id);
            found.map_or_else(|| Answer::error(404, "No such item"), |item| Answer::ok(json!(item)))
        }
        ("PATCH", ["items", id]) => update(inventory, id, body),
        ("DELETE", ["items", id]) => {
            inventory.calls.delete_item += 1;
            let before = inventory.items.len();
            inventory.items.retain(|item| item.id != *id);
            if inventory.items.len() == before {
                Answer::error(404, "No such item")
            } else {
                Answer { status: 204, body: None }
            }
        }
        ("GET", ["calls"]) => Answer::ok(json!(inventory.calls)),
        (_, ["items" | "calls"] | ["items", _]) => Answer::error(405, "Method not allowed"),
        _ => Answer::error(404, "Not found"),
    }
}

fn list(inventory: &Inventory, query: &[(String, String)]) -> Answer {
    let find = |key: &str| query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let number = |key: &str, default: usize| match find(key) {
        None => Ok(default),
        Some(text) => text.parse::<usize>().map_err(|_| Answer::error(400, "limit and offset are whole numbers")),
    };
    let (limit, offset) = match (number("limit", 50), number("offset", 0)) {
        (Ok(limit), Ok(offset)) => (limit, offset),
        (Err(answer), _) | (_, Err(answer)) => return answer,
    };
    let matching: Vec<&Item> = inventory
        .items
        .iter()
        .filter(|item| find("location").is_none_or(|location| item.location.eq_ignore_ascii_case(location)))
        .filter(|item| find("search").is_none_or(|text| item.name.to_lowercase().contains(&text.to_lowercase())))
        .collect();
    let page: Vec<&&Item> = matching.iter().skip(offset).take(limit).collect();
    Answer::ok(json!({ "items": page, "total": matching.len() }))
}

fn read_fields(body: &[u8]) -> Result<ItemFields, Answer> {
    let fields: ItemFields = crate::json::from_slice(body).map_err(|error| Answer::error(400, &error.to_string()))?;
    let too_long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.is_empty() || text.len() > TEXT_LIMIT);
    if too_long(&fields.name) || too_long(&fields.location) {
        return Err(Answer::error(400, "name and location have 1 to 200 bytes"));
    }
    Ok(fields)
}

fn create(inventory: &mut Inventory, body: &[u8]) -> Answer {
    let fields = match read_fields(body) {
        Ok(fields) => fields,
        Err(answer) => return answer,
    };
    let Some(name) = fields.name else {
        return Answer::error(400, "name is required");
    };
    if inventory.items.len() >= ITEM_LIMIT {
        return Answer::error(409, "The inventory is full");
    }
    inventory.calls.create_item += 1;
    let item = Item {
        id: format!("item-{}", inventory.next),
        name,
        quantity: fields.quantity.unwrap_or(0),
        location: fields.location.unwrap_or_else(|| "Berlin".to_owned()),
    };
    inventory.next += 1;
    inventory.items.push(item.clone());
    Answer { status: 201, body: Some(json!(item)) }
}

fn update(inventory: &mut Inventory, id: &str, body: &[u8]) -> Answer {
    let fields = match read_fields(body) {
        Ok(fields) => fields,
        Err(answer) => return answer,
    };
    inventory.calls.update_item += 1;
    let Some(item) = inventory.items.iter_mut().find(|item| item.id == id) else {
        return Answer::error(404, "No such item");
    };
    if let Some(name) = fields.name {
        item.name = name;
    }
    if let Some(quantity) = fields.quantity {
        item.quantity = quantity;
    }
    if let Some(location) = fields.location {
        item.location = location;
    }
    Answer::ok(json!(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_do_what_they_say_and_are_counted() {
        let mut inventory = Inventory::default();
        let mut run = |method: &str, path: &str, body: &str| handle(&mut inventory, method, path, &[], body.as_bytes());
        assert_eq!(run("POST", "/items", r#"{"name":"Desk","quantity":2}"#).status, 201);
        assert_eq!(run("POST", "/items", r#"{"quantity":2}"#).status, 400);
        assert_eq!(run("POST", "/items", r#"{"name":"x","colour":"red"}"#).status, 400);
        assert_eq!(run("PATCH", "/items/item-6", r#"{"quantity":5}"#).status, 200);
        assert_eq!(run("GET", "/items/item-6", "").body.unwrap()["quantity"], 5);
        assert_eq!(run("DELETE", "/items/item-6", "").status, 204);
        assert_eq!(run("DELETE", "/items/item-6", "").status, 404);
        assert_eq!(run("PUT", "/items", "").status, 405);
        assert_eq!(run("GET", "/elsewhere", "").status, 404);
        let calls = run("GET", "/calls", "").body.unwrap();
        assert_eq!(calls, json!({"listItems":0,"getItem":1,"createItem":1,"updateItem":1,"deleteItem":2}));
    }

    #[test]
    fn lists_are_filtered_and_paged() {
        let mut inventory = Inventory::default();
        let mut list = |query: &[(&str, &str)]| {
            let query: Vec<_> = query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            handle(&mut inventory, "GET", "/items", &query, b"").body.unwrap()
        };
        assert_eq!(list(&[])["total"], 5);
        assert_eq!(list(&[("search", "broken")])["total"], 2);
        assert_eq!(list(&[("search", "broken"), ("location", "oslo")])["items"][0]["id"], "item-5");
        assert_eq!(list(&[("limit", "2"), ("offset", "4")])["items"].as_array().unwrap().len(), 1);
    }
}
