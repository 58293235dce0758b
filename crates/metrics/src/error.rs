//! What cannot be done, told before a recording begins.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("`{0}` is no address to listen on")]
    Address(String),
    #[error("cannot write metrics to {}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} does not end in .prom", .0.display())]
    FileName(PathBuf),
    #[error("no collector is named")]
    NoCollector,
    #[error("`{0}` is no URL of a collector")]
    Url(String),
    #[error("https is not supported: {0}")]
    Https(String),
    #[error("OTEL_EXPORTER_OTLP_PROTOCOL={0} is not supported")]
    Protocol(String),
    #[error("`{0}` in OTEL_EXPORTER_OTLP_HEADERS is no header")]
    Header(String),
}

impl Error {
    /// What to try instead.
    pub fn hint(&self) -> String {
        match self {
            Self::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                "choose another port, or 0 for a free one:  --listen 0".into()
            }
            Self::Listen { .. } | Self::Address(_) => {
                "a port of this machine alone:  --listen 9464   or of a network:  --listen 10.0.0.5:9464".into()
            }
            Self::File { .. } => "choose a directory that you may write to:  --metrics-file /tmp/train.prom".into(),
            Self::FileName(path) => format!(
                "node_exporter reads no other files:  --metrics-file {}",
                path.with_extension("prom").display()
            ),
            Self::NoCollector => {
                "--otlp=http://localhost:4318   or set OTEL_EXPORTER_OTLP_ENDPOINT".into()
            }
            Self::Url(_) | Self::Https(_) => {
                "send to a collector of this machine, which may speak https onwards:  --otlp=http://localhost:4318".into()
            }
            Self::Protocol(_) => "nilo speaks http/protobuf:  OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf".into(),
            Self::Header(_) => "OTEL_EXPORTER_OTLP_HEADERS='name=value,other=value'".into(),
        }
    }
}
