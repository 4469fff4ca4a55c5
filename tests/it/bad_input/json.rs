//! JSON that is none, and JSON that only looks as if it were none.

use super::{FORM, JSON, ROUTES, Route, assert_next, encoded, gateway};
use crate::support::{Consumer, TestGateway};

/// Posts the bytes as JSON to every route, and the same within a form where forms are taken.
#[track_caller]
fn assert_refused_everywhere(gateway: &TestGateway, body: &[u8]) {
    let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
    for route in ROUTES {
        let reply = route.call(gateway, JSON, "id", body).send();
        assert_eq!(reply.status, 400, "{route:?} {shown} {}", reply.text());
        reply.assert_error(400, "invalid-payload");
    }
    let escaped: String = form_urlencoded::byte_serialize(body).collect();
    for route in [Route::GitHub, Route::SlackInteractions] {
        let form = format!("payload={escaped}");
        let reply = route.call(gateway, FORM, "id", form.as_bytes()).send();
        assert_eq!(reply.status, 400, "{route:?} form {shown} {}", reply.text());
        reply.assert_error(400, "invalid-payload");
    }
}

#[test]
fn a_truncated_body_is_no_payload_wherever_it_ends() {
    let gateway = gateway();
    for route in ROUTES {
        let whole = route.payload(1, "");
        for end in 0..whole.len() {
            let body = &whole.as_bytes()[..end];
            let reply = route.call(&gateway, JSON, "id", body).send();
            assert_eq!(reply.status, 400, "{route:?} {end}");
        }
        let form = encoded(&whole);
        for end in 0..form.len() {
            let body = &form.as_bytes()[..end];
            let reply = route.call(&gateway, FORM, "id", body).send();
            assert_eq!(reply.status, 400, "{route:?} form {end}");
        }
    }
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn what_is_no_json_object_is_no_payload() {
    let gateway = gateway();
    for body in [
        "",
        " ",
        "null",
        "true",
        "1",
        "\"{}\"",
        "[]",
        "[{}]",
        "{",
        "}",
        "{}{}",
        "{} x",
        "{},",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":0x1}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":1 /* b */}",
        "{\"a\":[1 2]}",
        "{\"a\":[}",
        "\u{a0}{}",
        "\u{b}{}",
        "<xml/>",
    ] {
        assert_refused_everywhere(&gateway, body.as_bytes());
    }
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn a_nul_byte_is_no_json() {
    let gateway = gateway();
    for body in [
        &b"\0"[..],
        b"\0{}",
        b"{}\0",
        b"{\"a\":\"\0\"}",
        b"{\"a\0\":1}",
        b"{\0\"a\":1}",
    ] {
        assert_refused_everywhere(&gateway, body);
    }
}

#[test]
fn a_byte_order_mark_is_no_json() {
    let gateway = gateway();
    let payload = Route::GitHub.payload(1, "");
    let utf16 = |swap: bool| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(payload.encode_utf16());
        units
            .flat_map(|unit| {
                if swap {
                    unit.to_be_bytes()
                } else {
                    unit.to_le_bytes()
                }
            })
            .collect()
    };
    for body in [
        format!("\u{feff}{payload}").into_bytes(),
        format!(" \u{feff}{payload}").into_bytes(),
        format!("{payload}\u{feff}").into_bytes(),
        utf16(false),
        utf16(true),
    ] {
        assert_refused_everywhere(&gateway, &body);
    }
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn what_is_not_utf_8_is_no_payload() {
    let gateway = gateway();
    for odd in [
        &b"\xff"[..],
        // A continuation without a beginning, and a beginning without its continuation.
        b"\x80",
        b"\xc3",
        b"\xe2\x82",
        // Overlong, a surrogate, and above the last character.
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        // Latin 1.
        b"caf\xe9",
    ] {
        let body = [&b"{\"a\":\""[..], odd, b"\"}"].concat();
        assert_refused_everywhere(&gateway, &body);
        // Also in what nobody reads, of a payload that is fine otherwise.
        for route in ROUTES {
            let whole = route.payload(1, ",\"x\":\"?\"");
            let (before, after) = whole.split_once('?').unwrap();
            let body = [before.as_bytes(), odd, after.as_bytes()].concat();
            let reply = route.call(&gateway, JSON, "id", &body).send();
            reply.assert_error(400, "invalid-payload");
        }
    }
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn what_nobody_reads_may_be_as_odd_as_json_allows() {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(200_000), close.repeat(200_000));
        format!(",\"x\":{open}1{close}")
    };
    let gateway = gateway();
    let mut laptop = Consumer::new("laptop");
    for route in ROUTES {
        for (id, odd) in (1..).zip([
            &*deep("[", "]"),
            &*deep("{\"a\":", "}"),
            &*deep("[{},", ",{\"a\":[]}]"),
            // Lone surrogates, in every order that is none.
            r#","x":"\ud800","\udfff":"\udc00\ud800","y":"\ud83d\ud83d\ude00""#,
            r#","x":"\u0000","\u0000":1"#,
            r#","x":1,"x":2,"x":{"x":1,"x":2}"#,
            r#","":{"":[]},"x":-0,"y":1e999,"z":-1E-999"#,
            ",\"n\":123456789012345678901234567890.000000000000000000000000000001",
            ",\"x\":\"\u{10ffff}\u{fffe}\u{202e}\u{0300}\"",
            ", \"x\"\t:\r\n [ 1 ,\t2 ]",
        ]) {
            let payload = route.payload(id, odd);
            let reply = route
                .call(&gateway, JSON, &format!("id-{id}"), payload.as_bytes())
                .send();
            assert_eq!(reply.status, route.success(), "{route:?} {id}");
            assert_next(&gateway, &mut laptop, &payload);
        }
    }
}

#[test]
fn whitespace_around_the_json_is_not_stored_and_none_within_is_touched() {
    let gateway = gateway();
    let mut laptop = Consumer::new("laptop");
    for route in ROUTES {
        let payload = route.payload(1, " \n\t\r ,\"x\" : [ ] ");
        let body = format!(" \r\n\t{payload}\n\n \t\r");
        let call = route.call(&gateway, JSON, "id-1", body.as_bytes());
        assert_eq!(call.send().status, route.success(), "{route:?}");
        assert_next(&gateway, &mut laptop, &payload);
    }
}

#[test]
fn nesting_that_is_never_closed_is_no_payload_however_deep() {
    let gateway = gateway();
    for open in ["[", "{\"a\":", "{\"a\":[", "[{\"a\":"] {
        let nested = format!("{{\"x\":{}", open.repeat(200_000));
        assert_refused_everywhere(&gateway, nested.as_bytes());
        assert_refused_everywhere(&gateway, open.repeat(200_000).as_bytes());
    }
}
