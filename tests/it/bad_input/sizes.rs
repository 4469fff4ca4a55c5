//! 25 MiB of JSON, and one byte more.

use std::io::Write;

use the_loop_gateway::app::Parts;
use the_loop_gateway::http::Timeouts;

use super::{FORM, JSON, MIB, Route, assert_next, encoded};
use crate::support::{Consumer, Reply, TestGateway};

/// A gateway that waits for large bodies, with the claims of [`super::gateway`].
fn patient_gateway() -> TestGateway {
    let patient = |parts: &mut Parts| parts.timeouts = Timeouts::default();
    let gateway = TestGateway::built(|_| {}, patient);
    gateway.claim("laptop", 15);
    gateway
}

/// A payload of exactly so many bytes; `fill` fills it.
fn payload_of(bytes: usize, id: u64, fill: char) -> String {
    let empty = Route::GitHub.payload(id, ",\"x\":\"\"");
    let count = (bytes - empty.len()) / fill.len_utf8();
    let text: String = std::iter::repeat_n(fill, count).collect();
    let payload = Route::GitHub.payload(id, &format!(",\"x\":\"{text}\""));
    assert_eq!(payload.len(), bytes);
    payload
}

#[test]
fn json_of_25_mib_is_stored_and_handed_out_byte_for_byte() {
    let gateway = patient_gateway();
    let mut laptop = Consumer::new("laptop");
    let payload = payload_of(25 * MIB, 1, 'x');
    let call = Route::GitHub.call(&gateway, JSON, "id-1", payload.as_bytes());
    call.send().assert(202);
    // More than a response may hold; but the first delivery always fits.
    assert_next(&gateway, &mut laptop, &payload);
}

#[test]
fn json_of_one_byte_more_is_too_large() {
    let gateway = patient_gateway();
    let payload = payload_of(25 * MIB + 1, 1, 'x');
    let call = Route::GitHub.call(&gateway, JSON, "id-1", payload.as_bytes());
    call.send().assert_error(413, "body-too-large");
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn in_chunks_the_bytes_are_counted_as_they_come() {
    let gateway = patient_gateway();
    let mut laptop = Consumer::new("laptop");
    for (bytes, status) in [(25 * MIB, 202), (25 * MIB + 1, 413)] {
        let payload = payload_of(bytes, 1, 'x');
        let call = Route::GitHub
            .call(&gateway, JSON, "id-1", payload.as_bytes())
            .header("Transfer-Encoding", "chunked");
        let mut stream = call.open();
        for chunk in payload.as_bytes().chunks(MIB) {
            let head = format!("{:x}\r\n", chunk.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(chunk).unwrap();
            stream.write_all(b"\r\n").unwrap();
        }
        // A gateway that has refused it may have closed already.
        drop(stream.write_all(b"0\r\n\r\n"));
        assert_eq!(Reply::read(&mut stream).status, status);
        if status == 202 {
            assert_next(&gateway, &mut laptop, &payload);
        }
    }
}

#[test]
fn a_form_of_25_mib_of_json_is_stored_and_one_byte_more_is_too_large() {
    let gateway = patient_gateway();
    let mut laptop = Consumer::new("laptop");
    let payload = payload_of(25 * MIB, 1, 'x');
    let body = encoded(&payload);
    assert!(body.len() > payload.len());
    let call = Route::GitHub.call(&gateway, FORM, "id-1", body.as_bytes());
    call.send().assert(202);
    assert_next(&gateway, &mut laptop, &payload);

    let body = encoded(&payload_of(25 * MIB + 1, 2, 'x'));
    let call = Route::GitHub.call(&gateway, FORM, "id-2", body.as_bytes());
    call.send().assert_error(413, "body-too-large");
    assert_eq!(gateway.stored(), 1);
}

#[test]
fn a_form_of_40_mib_on_the_wire_is_taken_and_one_byte_more_is_not() {
    let gateway = patient_gateway();
    let mut laptop = Consumer::new("laptop");
    let payload = payload_of(10 * MIB, 1, 'x');
    let form = encoded(&payload);
    let padded = |bytes: usize| {
        let rest = bytes - form.len() - "&pad=".len();
        format!("{form}&pad={}", "x".repeat(rest))
    };
    let body = padded(40 * MIB);
    let call = Route::GitHub.call(&gateway, FORM, "id-1", body.as_bytes());
    call.send().assert(202);
    assert_next(&gateway, &mut laptop, &payload);

    let body = padded(40 * MIB + 1);
    let call = Route::GitHub.call(&gateway, FORM, "id-2", body.as_bytes());
    call.send().assert_error(413, "body-too-large");
}
