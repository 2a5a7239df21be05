//! Puts logs and traces together, once a process.
//!
//! Owns the subscriber; what is exported and how is in the files beside it.

use std::{
    env,
    io::{self, IsTerminal},
};

use opentelemetry::trace::TracerProvider;
use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, filter::FilterExt, fmt, layer::SubscriberExt, registry::LookupSpan, util::SubscriberInitExt,
};

use super::{
    context,
    export::{Guard, Pipeline, Wish},
    noise::{Seldom, exported},
    panics,
};
use crate::config::{self, LogFormat};

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Which lines are written is not said in a way that can be understood.
    #[error("{name} says {value:?}, expected for example info or info,postrider::chain=debug")]
    Filter {
        /// The variable or the setting.
        name: &'static str,
        /// What it says.
        value: String,
    },
    /// It was done before in this process.
    #[error("logs are set up already")]
    AlreadyDone,
}

/// Sets up logs (on standard error) and the export of traces and metrics. Once a process, before anything is logged; it needs no
/// runtime.
///
/// # Errors
///
/// When the filter of log lines cannot be understood, or it was done before. A collector that is away or wrongly named
/// is no error: the mail goes on without it.
pub fn init(settings: &config::Telemetry) -> Result<Guard, InitError> {
    let filter = filter(settings)?;
    let mut wish = Wish::read(|name| env::var(name).ok());
    let pipeline = match wish.export().then(|| Pipeline::start(&wish)).transpose() {
        Ok(pipeline) => pipeline,
        Err(error) => {
            wish.warnings.push(format!("nothing is exported: {error}"));
            None
        }
    };
    let spans = pipeline.as_ref().and_then(|pipeline| pipeline.spans.as_ref());
    let traces = spans.map(|spans| {
        tracing_opentelemetry::layer()
            .with_tracer(spans.tracer("postrider"))
            .with_tracked_inactivity(false)
            .with_threads(false)
            .with_location(false)
            .with_target(false)
            .with_filter(exported())
    });
    tracing_subscriber::registry()
        .with(lines(settings.log_format).with_filter(filter.and(Seldom::default())))
        .with(traces)
        .try_init()
        .map_err(|_| InitError::AlreadyDone)?;
    context::set_propagation(wish.propagate);
    panics::log_without_words();
    wish.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(Guard::new(pipeline, settings.flush_limit))
}

/// `RUST_LOG`, as everybody expects, else the setting.
fn filter(settings: &config::Telemetry) -> Result<EnvFilter, InitError> {
    let (name, value) = match env::var("RUST_LOG") {
        Ok(value) if !value.is_empty() => ("RUST_LOG", value),
        _ => ("telemetry.log_level", settings.log_level.clone()),
    };
    EnvFilter::builder().parse(&value).map_err(|_| InitError::Filter { name, value })
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    match format {
        LogFormat::Human => {
            let colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            Box::new(fmt::layer().with_writer(io::stderr).with_ansi(colour))
        }
        LogFormat::Json => {
            let json = fmt::layer().with_writer(io::stderr).json().flatten_event(true).with_span_list(false);
            Box::new(json)
        }
    }
}
