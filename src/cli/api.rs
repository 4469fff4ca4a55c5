//! The HTTP API of a running gateway, as the command line uses it: JSON in and out, every wait
//! bounded, and an error body turned into its code and its message.
//!
//! Must not know verbs, nor print.

use std::time::Duration;

use awc::error::{ConnectError, SendRequestError};
use awc::http::{Method, StatusCode, Uri};
use awc::{Client, ClientRequest};
use serde::Deserialize;
use serde_json::Value;

use crate::outbound::{self, Limits};

/// How long a request that is not held may take to be answered.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const CONNECT_MAX: Duration = Duration::from_secs(3);
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
const ROWS_A_PAGE: usize = 1000;
/// More pages than any gateway has rows for; a `next` that goes in a circle ends here.
const PAGES_MAX: usize = 10_000;

/// A client of one gateway, for the thread that it is made on.
#[derive(Clone)]
pub(super) struct Api {
    client: Client,
    base: BaseUrl,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// Where a gateway listens: `http://host:port`, without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaseUrl(String);

impl BaseUrl {
    /// The base of a URL that a person gave, and its path if it has one besides `/`.
    pub(super) fn parse(text: &str) -> Option<(Self, Option<String>)> {
        let with_scheme = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let uri: Uri = with_scheme.parse().ok()?;
        let scheme = uri
            .scheme_str()
            .filter(|scheme| matches!(*scheme, "http" | "https"))?;
        let authority = uri.authority()?;
        let bad_port = authority.as_str().ends_with(char::is_alphanumeric)
            && authority.as_str() != authority.host()
            && authority.port_u16().is_none();
        if authority.host().is_empty() || bad_port {
            return None;
        }
        let path = uri.path_and_query().map(ToString::to_string);
        let path = path.filter(|path| path != "/" && !path.is_empty());
        Some((Self(format!("{scheme}://{authority}")), path))
    }

    /// The base of a listener on this machine.
    pub(super) fn of_listener(address: &impl std::fmt::Display) -> Self {
        Self(format!("http://{address}"))
    }

    /// The URL of a path that begins with `/`.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What came back, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: StatusCode,
    /// The body.
    pub(super) body: Vec<u8>,
}

/// Why there is no answer to work with.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// Nobody listens there.
    #[error("no gateway answers at {base} ({why})")]
    Down {
        /// Where.
        base: BaseUrl,
        /// What happened.
        why: String,
    },
    /// Somebody listens, but the answer did not come or broke off.
    #[error("the gateway at {base} gave no answer ({why}); is something else listening there?")]
    Broken {
        /// Where.
        base: BaseUrl,
        /// What happened.
        why: String,
    },
    /// It did not come in time.
    #[error("the gateway at {base} did not answer within {seconds} s; look at its log")]
    Slow {
        /// Where.
        base: BaseUrl,
        /// How long it had.
        seconds: u64,
    },
    /// The gateway said no.
    #[error("the gateway answered {status} {code}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// The code to branch on.
        code: String,
        /// The sentence for people.
        message: String,
        /// What is wrong with which field.
        fields: Vec<FieldError>,
    },
    /// What answered is no gateway.
    #[error(
        "what answers at {base} (HTTP {status}) is not a gateway of this version; check the address"
    )]
    Foreign {
        /// Where.
        base: BaseUrl,
        /// The status.
        status: u16,
    },
    /// No client could be made.
    #[error(transparent)]
    NoTls(#[from] outbound::NoTls),
}

#[derive(Deserialize)]
struct ErrorBody {
    error: String,
    message: String,
    #[serde(default)]
    fields: Vec<FieldError>,
}

/// What the gateway says of a field.
#[derive(Debug, Deserialize)]
pub(super) struct FieldError {
    /// Its path in the request.
    pub(super) field: String,
    /// What it must be.
    pub(super) message: String,
}

impl ErrorBody {
    /// The sentence, and what is wrong with each field.
    fn sentence(&self) -> String {
        let told = self.message.clone();
        self.fields.iter().fold(told, |told, wrong| {
            format!("{told} {}: {}", wrong.field, wrong.message)
        })
    }
}

impl Api {
    /// A client of the gateway there; needs a running actix system.
    ///
    /// # Errors
    /// [`ApiError::NoTls`].
    pub(super) fn new(base: BaseUrl) -> Result<Self, ApiError> {
        let client = outbound::client(Limits {
            connect: CONNECT_MAX,
            answer: ANSWER_MAX,
            ..Limits::default()
        })?;
        Ok(Self { client, base })
    }

    /// Where the gateway is.
    pub(super) const fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Reads a view.
    ///
    /// # Errors
    /// As [`ApiError`] says.
    pub(super) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        let request = self.client.get(self.base.at(path));
        let answer = self.answer(request, Vec::new(), ANSWER_MAX).await?;
        self.json(&answer)
    }

    /// Reads all pages of a list; `key` names the rows in each.
    ///
    /// # Errors
    /// As [`ApiError`] says.
    pub(super) async fn get_all(&self, path: &str, key: &str) -> Result<Vec<Value>, ApiError> {
        let mut rows = Vec::new();
        let mut after: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &ROWS_A_PAGE.to_string());
            if let Some(after) = &after {
                query.append_pair("after", after);
            }
            let mut page = self.get(&format!("{path}?{}", query.finish())).await?;
            let Some(Value::Array(more)) = page.get_mut(key).map(Value::take) else {
                return Err(self.foreign(StatusCode::OK));
            };
            rows.extend(more);
            match page.get("next").and_then(Value::as_str) {
                Some(next) => after = Some(next.to_owned()),
                None => return Ok(rows),
            }
        }
        Ok(rows)
    }

    /// Sends JSON to the API; `wait` is how long the gateway may hold it.
    ///
    /// # Errors
    /// As [`ApiError`] says.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        wait: Duration,
    ) -> Result<Value, ApiError> {
        let request = self
            .client
            .request(method, self.base.at(path))
            .insert_header(("content-type", "application/json"));
        let limit = ANSWER_MAX.saturating_add(wait);
        let answer = self
            .answer(request, body.to_string().into_bytes(), limit)
            .await?;
        self.json(&answer)
    }

    /// Posts bytes as a provider does, and brings back whatever is answered.
    ///
    /// # Errors
    /// When there is no answer; a refusal is one.
    pub(super) async fn post_raw(
        &self,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Answer, ApiError> {
        let mut request = self.client.post(self.base.at(path));
        for (name, value) in headers {
            request = request.insert_header((name.as_str(), value.as_str()));
        }
        self.answer(request, body, ANSWER_MAX).await
    }

    async fn answer(
        &self,
        request: ClientRequest,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Answer, ApiError> {
        let exchange = async {
            let mut response = request
                .timeout(limit)
                .send_body(body)
                .await
                .map_err(|error| self.fault(&error, limit))?;
            let status = response.status();
            let body = response.body().limit(BODY_BYTES_MAX).await;
            let body = body.map_err(|error| self.broken(&error))?;
            Ok(Answer {
                status,
                body: body.to_vec(),
            })
        };
        let answered = tokio::time::timeout(limit, exchange).await;
        answered.unwrap_or_else(|_elapsed| Err(self.slow(limit)))
    }

    fn json(&self, answer: &Answer) -> Result<Value, ApiError> {
        if answer.status.is_success() {
            let value = serde_json::from_slice(&answer.body).ok();
            return value.ok_or_else(|| self.foreign(answer.status));
        }
        match serde_json::from_slice(&answer.body) {
            Ok(body) => {
                let body: ErrorBody = body;
                Err(ApiError::Refused {
                    status: answer.status.as_u16(),
                    message: body.sentence(),
                    code: body.error,
                    fields: body.fields,
                })
            }
            Err(_) => Err(self.foreign(answer.status)),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library's list of errors is open"
    )]
    fn fault(&self, error: &SendRequestError, limit: Duration) -> ApiError {
        match error {
            SendRequestError::Timeout => self.slow(limit),
            SendRequestError::Connect(error) => self.down(error),
            other => self.broken(other),
        }
    }

    fn down(&self, why: &ConnectError) -> ApiError {
        ApiError::Down {
            base: self.base.clone(),
            why: why.to_string(),
        }
    }

    fn slow(&self, limit: Duration) -> ApiError {
        ApiError::Slow {
            base: self.base.clone(),
            seconds: limit.as_secs(),
        }
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> ApiError {
        ApiError::Broken {
            base: self.base.clone(),
            why: why.to_string(),
        }
    }

    /// For an answer that is not what the API promises.
    pub(super) fn not_ours(&self) -> ApiError {
        self.foreign(StatusCode::OK)
    }

    fn foreign(&self, status: StatusCode) -> ApiError {
        ApiError::Foreign {
            base: self.base.clone(),
            status: status.as_u16(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    #[test]
    fn a_url_is_split_into_base_and_path() {
        for (given, base, path) in [
            ("http://127.0.0.1:8790", "http://127.0.0.1:8790", None),
            ("127.0.0.1:8790/", "http://127.0.0.1:8790", None),
            (
                "https://hooks.example/gh-webhook",
                "https://hooks.example",
                Some("/gh-webhook"),
            ),
            ("http://[::1]:1/a/b?c=d", "http://[::1]:1", Some("/a/b?c=d")),
        ] {
            let (parsed, rest) = BaseUrl::parse(given).unwrap();
            assert_eq!(
                (parsed.0.as_str(), rest.as_deref()),
                (base, path),
                "{given}"
            );
        }
        for bad in [
            "",
            "ftp://host",
            "http://",
            "http:///path",
            "a b",
            "nope:x",
            "h:99999",
        ] {
            assert!(BaseUrl::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[actix_rt::test]
    async fn a_refusal_is_shown_by_its_code_and_message_and_other_answers_are_no_gateway() {
        let api = Api::new(BaseUrl::of_listener(&"127.0.0.1:1")).unwrap();
        let answer = |status: u16, body: &str| Answer {
            status: StatusCode::from_u16(status).unwrap(),
            body: body.as_bytes().to_vec(),
        };
        let refused = answer(
            403,
            r#"{"error": "forbidden-origin", "message": "Not one of ours."}"#,
        );
        assert_eq!(
            api.json(&refused).unwrap_err().to_string(),
            "the gateway answered 403 forbidden-origin: Not one of ours."
        );
        for (status, body) in [(200, "<html>"), (502, "<html>"), (404, "{}")] {
            let error = api.json(&answer(status, body)).unwrap_err();
            assert!(matches!(error, ApiError::Foreign { .. }), "{error}");
        }
    }

    #[actix_rt::test]
    async fn where_nobody_listens_the_gateway_is_down() {
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let api = Api::new(BaseUrl::of_listener(&free)).unwrap();
        let error = api.get("/").await.unwrap_err();
        assert!(matches!(error, ApiError::Down { .. }), "{error}");
    }

    /// Answers one request after the other, each with the next of these bodies, and keeps the
    /// request lines.
    fn answering(bodies: &'static [&'static str]) -> (BaseUrl, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = BaseUrl::of_listener(&listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let answer_next = |body: &&str| {
                let (stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let request = lines.next().unwrap();
                lines.find(String::is_empty).unwrap();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}", body.len());
                write!(&stream, "{head}\r\nconnection: close\r\n\r\n{body}").unwrap();
                request
            };
            bodies.iter().map(answer_next).collect()
        });
        (base, thread)
    }

    #[actix_rt::test]
    async fn all_pages_of_a_list_are_read_in_order() {
        let (base, thread) = answering(&[
            r#"{"queues": [{"instance": "a"}, {"instance": "b"}], "next": "b/&="}"#,
            r#"{"queues": [{"instance": "c"}]}"#,
        ]);
        let rows = Api::new(base)
            .unwrap()
            .get_all("/queues", "queues")
            .await
            .unwrap();
        let names: Vec<&str> = rows
            .iter()
            .filter_map(|row| row["instance"].as_str())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(
            thread.join().unwrap(),
            [
                "GET /queues?limit=1000 HTTP/1.1",
                "GET /queues?limit=1000&after=b%2F%26%3D HTTP/1.1"
            ]
        );
    }

    #[actix_rt::test]
    async fn a_list_without_its_rows_is_no_gateways() {
        let (base, thread) = answering(&["{}"]);
        let error = Api::new(base)
            .unwrap()
            .get_all("/queues", "queues")
            .await
            .unwrap_err();
        assert!(
            matches!(error, ApiError::Foreign { status: 200, .. }),
            "{error}"
        );
        thread.join().unwrap();
    }
}
