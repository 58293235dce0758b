//! As much of HTTP/1.1 as one page needs: the head of a request in, a whole response out. Pure.

/// Longest head of a request.
pub(crate) const LONGEST_HEAD: usize = 8 << 10;
const PATH: &str = "/metrics";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Metrics,
    /// Status and reason.
    Refused(u16, &'static str),
}

/// Has the whole head arrived?
pub(crate) fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}

/// Judges the first line; everything after it is of no interest.
pub(crate) fn parse_head(head: &[u8]) -> Asked {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default().trim_end_matches('\r');
    let mut words = line.split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some(version)) = (method, target, version) else {
        return Asked::Refused(400, "Bad Request");
    };
    if !version.starts_with("HTTP/1.") || words.next().is_some() {
        return Asked::Refused(400, "Bad Request");
    }
    let path = target.split('?').next().unwrap_or_default();
    match (path, method) {
        (PATH, "GET") => Asked::Metrics,
        (PATH, _) => Asked::Refused(405, "Method Not Allowed"),
        _ => Asked::Refused(404, "Not Found"),
    }
}

pub(crate) fn render_page(content_type: &str, body: &str) -> String {
    render(200, "OK", content_type, "", body)
}

pub(crate) fn render_refusal(status: u16, reason: &str) -> String {
    let allow = if status == 405 { "Allow: GET\r\n" } else { "" };
    let body = if status == 404 { "see /metrics\n".to_owned() } else { format!("{reason}\n") };
    render(status, reason, "text/plain; charset=utf-8", allow, &body)
}

fn render(status: u16, reason: &str, content_type: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         X-Content-Type-Options: nosniff\r\n{more}Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_and_one_method() {
        assert_eq!(parse_head(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Asked::Metrics);
        assert_eq!(parse_head(b"GET /metrics?name[]=x HTTP/1.0\n\n"), Asked::Metrics);
        let refused = |head: &[u8]| match parse_head(head) {
            Asked::Refused(status, _) => status,
            Asked::Metrics => 200,
        };
        assert_eq!(refused(b"POST /metrics HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), 404);
        assert_eq!(refused(b"GET /metrics/../etc HTTP/1.1\r\n\r\n"), 404);
        for head in [
            &b""[..],
            b"GET",
            b"GET /metrics",
            b"GET /metrics SPDY/3",
            b"\xff\xfe a b",
            b"GET  /metrics HTTP/1.1 x",
        ] {
            assert_eq!(refused(head), 400, "{head:?}");
        }
    }

    #[test]
    fn a_head_is_whole_at_its_empty_line() {
        assert!(is_whole(b"GET / HTTP/1.1\r\n\r\n") && is_whole(b"GET / HTTP/1.1\n\n"));
        assert!(!is_whole(b"GET / HTTP/1.1\r\nHost: x\r\n"));
    }
}
