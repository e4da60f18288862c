//! The pages: views in, HTML out.
#![allow(missing_docs)]
use super::approval::ApprovalView;
pub struct Asset { pub content_type: &'static str, pub body: &'static str, pub cache_control: &'static str }
pub struct Notice(String);
impl Notice { pub fn problem(text: &str) -> Self { Self(text.to_owned()) } }
pub fn page_headers() -> [(&'static str, String); 1] { [("content-type", "text/html; charset=utf-8".to_owned())] }
pub fn asset(_: &str) -> Option<Asset> { None }
pub fn approval_page(view: &ApprovalView, person: &str, _: Option<Notice>) -> String { format!("{person} {view:?}") }
pub fn message_page(title: &str, text: &str, _: u16) -> String { format!("{title} {text}") }
pub fn sign_in_page(_: &str, _: &str, _: Option<&str>) -> String { String::new() }
pub fn home_page(origin: &str, _: &str, _: bool) -> String { origin.to_owned() }
