//! Compiles the protobuf contract without protoc, and keeps its descriptors for server reflection.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const PROTOS: [&str; 4] = [
    "postrider/v1/email.proto",
    "postrider/v1/email_service.proto",
    "postrider/v1/operator_service.proto",
    "postrider/stored/v1/content.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=migrations");

    let descriptors = protox::compile(PROTOS, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("postrider.bin"), descriptors.encode_to_vec())?;

    // Attachments dominate a message's size: as `Bytes` they are slices of the buffer that the call arrived in.
    tonic_prost_build::configure().bytes(".postrider").compile_fds(descriptors)?;
    Ok(())
}
