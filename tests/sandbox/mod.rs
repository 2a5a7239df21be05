//! The sandbox's parts, spoken to by clients that are not the sandbox's own.

mod console;
mod http;
mod postgres;
mod smtp;
mod smtp_client;
