use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalog::tool::{GraphqlBinding, HttpBinding, ToolHints};

fn tool(address: &str, method: &str) -> Tool {
    Tool {
        address: address.to_owned(),
        source: address.split('.').next().unwrap().to_owned(),
        title: String::new(),
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        hints: ToolHints { read_only: method == "GET", ..ToolHints::default() },
        binding: Binding::Http(HttpBinding {
            method: method.to_owned(),
            base_url: None,
            path_template: "/".to_owned(),
            parameters: Vec::new(),
            body: None,
            renamed: Vec::new(),
            accept: None,
            definition_hash: String::new(),
        }),
    }
}

#[test]
fn a_query_is_allowed_and_a_mutation_is_asked_about_and_sent_once() {
    let of = |operation: GraphqlOperation| {
        let binding = GraphqlBinding {
            operation,
            field: "it".to_owned(),
            variables: Vec::new(),
            selection: None,
            renamed: Vec::new(),
            definition_hash: String::new(),
        };
        Tool { binding: Binding::Graphql(binding), ..tool("g.it", "GET") }
    };
    let vouched = |honours| Vouched { honours_idempotency_key: honours, trusted: true, ..Vouched::default() };
    for (operation, action, again) in
        [(GraphqlOperation::Query, Action::Allow, true), (GraphqlOperation::Mutation, Action::Approve, false)]
    {
        assert_eq!(judge_nature(&of(operation), vouched(false)).action, action);
        assert_eq!(may_be_sent_again(&of(operation), vouched(false)), again);
        assert!(may_be_sent_again(&of(operation), vouched(true)));
    }
}

fn rules(list: &[(&str, Action)]) -> Vec<Rule> {
    list.iter()
        .map(|(pattern, action)| Rule {
            pattern: Pattern::parse(pattern).unwrap(),
            action: *action,
            by: Approvers::Owner,
            note: None,
        })
        .collect()
}

#[test]
fn patterns_match_whole_segments() {
    for (pattern, address, expected) in [
        ("demo.listItems", "demo.listItems", true),
        ("demo.listItems", "demo.listItems.all", false),
        ("demo.listItems", "demo.listitems", false),
        ("demo.*", "demo.listItems", true),
        ("demo.*", "demo.items.list", false),
        ("demo.*", "demo", false),
        ("demo.*", "demonstration.list", false),
        ("demo.**", "demo.listItems", true),
        ("demo.**", "demo.items.list", true),
        ("demo.**", "demo", false),
        ("*.items.*", "shop.items.list", true),
        ("*.items.*", "shop.items", false),
        ("*.items.**", "shop.items.all.list", true),
        ("*.items.**", "shop.x.items.list", false),
        ("**", "anything.at.all", true),
        ("**", "demo", true),
        ("*", "demo.x", false),
    ] {
        assert_eq!(Pattern::parse(pattern).unwrap().matches(address), expected, "{pattern} {address}");
    }
}

#[test]
fn what_is_no_pattern_is_refused() {
    for (text, expected) in [
        ("", PatternError::Length),
        (&"a".repeat(513), PatternError::Length),
        ("demo.", PatternError::EmptySegment),
        (".demo", PatternError::EmptySegment),
        ("a..b", PatternError::EmptySegment),
        ("**.list", PatternError::RestIsNotLast),
        ("demo.list*", PatternError::PartOfSegment),
        ("demo.***", PatternError::PartOfSegment),
        ("demo. x", PatternError::Character),
        ("demo.x\n", PatternError::Character),
    ] {
        assert_eq!(Pattern::parse(text), Err(expected), "{text}");
    }
}

#[test]
fn a_pattern_tells_its_source() {
    for (text, expected) in [("demo.**", Some("demo")), ("*.list", None), ("**", None), ("demo.x", Some("demo"))] {
        assert_eq!(Pattern::parse(text).unwrap().source(), expected, "{text}");
    }
}

#[test]
fn first_rule_of_a_list_counts_and_the_stricter_list_wins() {
    use Action::{Allow, Approve, Block};
    type List<'a> = &'a [(&'a str, Action)];
    let cases: [(&str, List<'_>, Option<List<'_>>, Action, &str); 11] = [
        ("GET", &[], None, Allow, "GET only reads"),
        ("POST", &[], None, Approve, "POST may change something"),
        ("POST", &[], Some(&[]), Approve, "POST may change something"),
        ("POST", &[("a.b", Allow)], None, Allow, "rule 1 of the organization (a.b)"),
        ("GET", &[("a.x", Block), ("a.*", Approve)], None, Approve, "rule 2 of the organization (a.*)"),
        ("GET", &[("a.b", Allow), ("**", Block)], None, Allow, "rule 1 of the organization (a.b)"),
        ("GET", &[("**", Block), ("a.b", Allow)], None, Block, "rule 1 of the organization (**)"),
        ("POST", &[("**", Allow)], Some(&[("a.*", Approve)]), Approve, "rule 1 of the toolkit t (a.*)"),
        ("POST", &[("**", Approve)], Some(&[("a.*", Allow)]), Approve, "rule 1 of the organization (**)"),
        ("POST", &[], Some(&[("a.*", Allow)]), Allow, "rule 1 of the toolkit t (a.*)"),
        ("POST", &[("**", Block)], Some(&[("a.*", Block)]), Block, "rule 1 of the organization (**)"),
    ];
    for (method, organization, toolkit, action, reason) in cases {
        let organization = rules(organization);
        let toolkit = toolkit.map(rules);
        let lists = Rules { organization: &organization, toolkit: toolkit.as_deref().map(|rules| ("t", rules)) };
        let judgement = judge(&tool("a.b", method), Vouched::default(), lists);
        assert_eq!((judgement.action, judgement.reason.as_str()), (action, reason), "{organization:?} {toolkit:?}");
    }
}

#[test]
fn who_may_decide_is_what_both_lists_want() {
    use Action::{Allow, Approve, Block};
    use Approvers::{Admin, Other, OtherAdmin, Owner};
    let list = |action: Action, by: Approvers| vec![Rule { by, ..rules(&[("**", action)]).remove(0) }];
    for (organization, toolkit, action, by) in [
        ((Approve, Owner), (Approve, Owner), Approve, Owner),
        ((Approve, Owner), (Approve, Other), Approve, Other),
        ((Approve, Admin), (Approve, Owner), Approve, Admin),
        ((Approve, Admin), (Approve, Other), Approve, OtherAdmin),
        // A list that would not even ask says nothing of who decides.
        ((Allow, Owner), (Approve, Other), Approve, Other),
        ((Approve, Admin), (Allow, Owner), Approve, Admin),
        ((Block, Owner), (Approve, Other), Block, Owner),
    ] {
        let (organization, toolkit) = (list(organization.0, organization.1), list(toolkit.0, toolkit.1));
        let lists = Rules { organization: &organization, toolkit: Some(("t", &toolkit)) };
        let judgement = judge(&tool("a.b", "POST"), Vouched::default(), lists);
        assert_eq!((judgement.action, judgement.by), (action, by), "{organization:?} {toolkit:?}");
    }
    let (organization, toolkit) = (list(Approve, Admin), list(Approve, Other));
    let lists = Rules { organization: &organization, toolkit: Some(("t", &toolkit)) };
    let judgement = judge(&tool("a.b", "POST"), Vouched::default(), lists);
    assert_eq!(judgement.reason, "rule 1 of the organization (**); rule 1 of the toolkit t (**)");
    // The gate of the gateway's own writes does not loosen who decides either.
    let gated = Vouched { writes_are_gated: true, ..Vouched::default() };
    assert_eq!(judge(&tool("countersign.x", "PUT"), gated, lists).by, OtherAdmin);
}

#[test]
fn a_note_is_part_of_the_reason() {
    let mut list = rules(&[("a.**", Action::Block)]);
    list[0].note = Some("ask legal first".to_owned());
    let lists = Rules { organization: &list, toolkit: None };
    let judgement = judge(&tool("a.b", "GET"), Vouched::default(), lists);
    assert_eq!(judgement.reason, "rule 1 of the organization (a.**): ask legal first");
}

#[test]
fn no_rule_loosens_what_changes_the_gateway_itself() {
    let list = rules(&[("**", Action::Allow)]);
    let lists = Rules { organization: &list, toolkit: None };
    let gated = Vouched { writes_are_gated: true, ..Vouched::default() };
    for (method, expected) in [("GET", Action::Allow), ("PUT", Action::Approve)] {
        assert_eq!(judge(&tool("countersign.x", method), gated, lists).action, expected);
    }
    let block = rules(&[("**", Action::Block)]);
    let lists = Rules { organization: &block, toolkit: None };
    assert_eq!(judge(&tool("countersign.x", "PUT"), gated, lists).action, Action::Block);
}

#[test]
fn only_what_is_vouched_for_is_sent_again() {
    let nothing = Vouched::default();
    let writes = Vouched { idempotent_writes: true, ..nothing };
    let key = Vouched { honours_idempotency_key: true, ..nothing };
    for (method, vouched, expected) in [
        ("GET", nothing, true),
        ("HEAD", nothing, true),
        ("PUT", nothing, false),
        ("DELETE", nothing, false),
        ("PUT", writes, true),
        ("DELETE", writes, true),
        ("POST", writes, false),
        ("PATCH", writes, false),
        ("POST", key, true),
        ("POST", Vouched { trusted: true, ..nothing }, false),
    ] {
        assert_eq!(may_be_sent_again(&tool("a.b", method), vouched), expected, "{method} {vouched:?}");
    }
}

fn any_pattern() -> impl Strategy<Value = String> {
    (prop::collection::vec(prop_oneof!["[ab]", Just("*".to_owned())], 0..4), any::<bool>()).prop_map(
        |(mut segments, rest)| {
            if rest || segments.is_empty() {
                segments.push("**".to_owned());
            }
            segments.join(".")
        },
    )
}

fn any_address() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]", 1..5).prop_map(|segments| segments.join("."))
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![Just(Action::Allow), Just(Action::Approve), Just(Action::Block)]
}

fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec((any_pattern(), any_action()), 0..5).prop_map(|list| {
        list.into_iter()
            .map(|(pattern, action)| Rule {
                pattern: Pattern::parse(&pattern).unwrap(),
                action,
                by: Approvers::Owner,
                note: None,
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn a_pattern_matches_what_the_regular_expression_it_means_would(pattern in any_pattern(), address in any_address()) {
        // The same question, answered by taking both apart from the front.
        fn fits(pattern: &[&str], address: &[&str]) -> bool {
            match (pattern, address) {
                ([], []) | (["**"], [_, ..]) => true,
                (["*", pattern @ ..], [_, address @ ..]) => fits(pattern, address),
                ([literal, pattern @ ..], [part, address @ ..]) => literal == part && fits(pattern, address),
                _ => false,
            }
        }
        let expected = fits(&pattern.split('.').collect::<Vec<_>>(), &address.split('.').collect::<Vec<_>>());
        prop_assert_eq!(Pattern::parse(&pattern).unwrap().matches(&address), expected);
    }

    #[test]
    fn a_toolkit_never_loosens_what_the_organization_says(
        organization in any_rules(), toolkit in any_rules(), address in any_address(),
    ) {
        let tool = tool(&address, "POST");
        let alone = judge(&tool, Vouched::default(), Rules { organization: &organization, toolkit: None });
        let both = Rules { organization: &organization, toolkit: Some(("t", &toolkit)) };
        let both = judge(&tool, Vouched::default(), both);
        let says = organization.iter().any(|rule| rule.pattern.matches(&address));
        prop_assert!(!says || both.action >= alone.action);
    }

    #[test]
    fn rules_behind_one_that_matches_count_for_nothing(
        first in any_rules(), behind in any_rules(), address in any_address(),
    ) {
        prop_assume!(first.iter().any(|rule| rule.pattern.matches(&address)));
        let tool = tool(&address, "GET");
        let all = [first.clone(), behind].concat();
        let judged = |organization| judge(&tool, Vouched::default(), Rules { organization, toolkit: None });
        prop_assert_eq!(judged(&all), judged(&first));
    }
}
