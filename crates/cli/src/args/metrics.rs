//! Options of recordings: who is told the values while they are recorded.

use std::path::PathBuf;

use clap::Args;

/// Metrics while it runs; a receiver that is slow, hangs or dies never disturbs the run
#[derive(Debug, Args)]
#[command(next_help_heading = "Metrics")]
pub struct MetricsArgs {
    /// Write a Prometheus textfile every second, for `node_exporter`; FILE ends in .prom
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Serve GET /metrics for Prometheus, on this machine alone unless an address is told; port 0 is a
    /// free one
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub listen: Option<String>,
    /// Push to an OpenTelemetry collector by OTLP/HTTP (protobuf; http only), every 10 s and at the end;
    /// without URL to `$OTEL_EXPORTER_OTLP_ENDPOINT`
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub otlp: Option<String>,
}
