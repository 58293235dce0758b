//! The page for scrapers: one path, one method, few connections, little time.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::http::{self, Asked};
use crate::slot::Slot;
use crate::{Error, prometheus};

/// Connections answered at one time; more are turned away at once.
const MOST_CONNECTIONS: usize = 8;
/// From the connection to its end, whatever the client does.
const PATIENCE: Duration = Duration::from_secs(2);
const STACK_BYTES: usize = 128 << 10;
/// After an error of the system (no descriptor is left).
const PAUSE: Duration = Duration::from_millis(100);

/// A port that is ours.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// `9464` and `:9464` are ports of this machine alone; `ADDRESS:PORT` is for others too.
    pub fn bind(word: &str) -> Result<Self, Error> {
        let wanted = parse_address(word)?;
        let listener = TcpListener::bind(wanted)
            .map_err(|source| Error::Listen { address: wanted.to_string(), source })?;
        let address = listener.local_addr().unwrap_or(wanted);
        Ok(Self { listener, address })
    }

    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Another handle of the same port.
    pub(crate) fn share(&self) -> Option<Self> {
        Some(Self { listener: self.listener.try_clone().ok()?, address: self.address })
    }

    /// Answers until the end.
    pub(crate) fn serve(&self, slot: &Arc<Slot>) {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let client = self.listener.accept();
            if slot.is_closing() {
                return;
            }
            match client {
                Ok((client, _)) => take(client, slot, &open),
                Err(_) => drop(slot.wait(PAUSE)),
            }
        }
    }

    /// Ends a wait for the next client.
    pub(crate) fn wake(&self) {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                Ipv4Addr::LOCALHOST.into()
            } else {
                IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])
            });
        }
        let _ = TcpStream::connect_timeout(&address, PAUSE);
    }
}

fn parse_address(word: &str) -> Result<SocketAddr, Error> {
    let wrong = || Error::Address(word.to_owned());
    if let Ok(port) = word.strip_prefix(':').unwrap_or(word).parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let mut found = word.to_socket_addrs().map_err(|_| wrong())?;
    found.next().ok_or_else(wrong)
}

/// A thread for the client, if there are not too many.
fn take(client: TcpStream, slot: &Arc<Slot>, open: &Arc<AtomicUsize>) {
    if open.fetch_add(1, Ordering::AcqRel) >= MOST_CONNECTIONS {
        open.fetch_sub(1, Ordering::AcqRel);
        turn_away(&client);
        return;
    }
    let (slot, counted) = (Arc::clone(slot), Arc::clone(open));
    let work = move || {
        let _ = answer(&client, &slot);
        counted.fetch_sub(1, Ordering::AcqRel);
    };
    let thread = std::thread::Builder::new().name("nilo-scrape".into()).stack_size(STACK_BYTES);
    if thread.spawn(work).is_err() {
        open.fetch_sub(1, Ordering::AcqRel);
    }
}

fn turn_away(mut client: &TcpStream) {
    let _ = client.set_nonblocking(true);
    let _ = client.write_all(http::render_refusal(503, "Service Unavailable").as_bytes());
}

fn answer(mut client: &TcpStream, slot: &Slot) -> std::io::Result<()> {
    let end = Instant::now() + PATIENCE;
    let asked = match read_head(client, end)? {
        Some(head) => http::parse_head(&head),
        None => Asked::Refused(431, "Request Header Fields Too Large"),
    };
    let response = match (asked, slot.latest()) {
        (Asked::Metrics, Some(snapshot)) => {
            http::render_page(prometheus::CONTENT_TYPE, &prometheus::render(&snapshot))
        }
        (Asked::Metrics, None) => http::render_refusal(503, "Service Unavailable"),
        (Asked::Refused(status, reason), _) => http::render_refusal(status, reason),
    };
    client.set_write_timeout(Some(left(end)?))?;
    client.write_all(response.as_bytes())?;
    client.shutdown(std::net::Shutdown::Write)
}

/// `None` when it is too long.
fn read_head(mut client: &TcpStream, end: Instant) -> std::io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !http::is_whole(&head) {
        if head.len() >= http::LONGEST_HEAD {
            return Ok(None);
        }
        client.set_read_timeout(Some(left(end)?))?;
        match client.read(&mut chunk)? {
            0 => break,
            read => head.extend(chunk.iter().take(read)),
        }
    }
    Ok(Some(head))
}

/// Time that the client has; an error when it is over.
fn left(end: Instant) -> std::io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snapshot;

    fn serving() -> (Arc<Slot>, SocketAddr) {
        let listener = Listener::bind("0").unwrap();
        let (slot, address) = (Arc::new(Slot::default()), listener.address);
        let told = Arc::clone(&slot);
        std::thread::spawn(move || listener.serve(&told));
        (slot, address)
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_bare_port_is_of_this_machine_alone() {
        assert_eq!(parse_address("9464").unwrap().to_string(), "127.0.0.1:9464");
        assert_eq!(parse_address(":9464").unwrap().to_string(), "127.0.0.1:9464");
        assert_eq!(parse_address("0.0.0.0:9464").unwrap().to_string(), "0.0.0.0:9464");
        assert_eq!(parse_address("[::1]:9464").unwrap().to_string(), "[::1]:9464");
        for word in ["", "99999", "somewhere", "1.2.3.4", ":x"] {
            assert!(matches!(parse_address(word), Err(Error::Address(_))), "{word}");
        }
    }

    #[test]
    fn a_page_has_its_type_and_everything_else_is_refused() {
        let (slot, address) = serving();
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "), "no values yet");
        slot.leave(Snapshot { ticks: 5, ..Snapshot::default() });
        let page = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
        );
        assert!(page.contains("nilo_ticks_total{run=\"\"} 5\n"));
        assert!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").contains("405 Method Not Allowed\r\n"));
        assert!(ask(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(address, b"nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
        // Exactly the longest head, so that nothing is left unread when the port is closed.
        assert!(ask(address, &vec![b'x'; http::LONGEST_HEAD]).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn silent_clients_are_few_and_do_not_stay() {
        let (slot, address) = serving();
        slot.leave(Snapshot::default());
        let silent: Vec<TcpStream> =
            (0..MOST_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        // Accepted in order: when the next one is answered, all of them have been.
        let mut next = TcpStream::connect(address).unwrap();
        let mut answer = String::new();
        next.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        for mut client in silent {
            let began = Instant::now();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            assert!(rest.is_empty() && began.elapsed() < PATIENCE * 2);
        }
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
    }

    #[test]
    fn a_port_in_use_is_told() {
        let first = Listener::bind("0").unwrap();
        let error = Listener::bind(&first.address.to_string()).unwrap_err();
        assert!(error.to_string().contains("in use") && error.hint().contains("--listen 0"), "{error}");
    }

    #[test]
    fn the_end_wakes_it() {
        let listener = Arc::new(Listener::bind("0.0.0.0:0").unwrap());
        let (slot, serving) = (Arc::new(Slot::default()), Arc::clone(&listener));
        let told = Arc::clone(&slot);
        let thread = std::thread::spawn(move || serving.serve(&told));
        slot.close(None);
        listener.wake();
        thread.join().unwrap();
    }
}
