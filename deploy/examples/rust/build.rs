//! Makes the client of the contract. Needs protoc.

fn main() -> std::io::Result<()> {
    let proto = std::path::Path::new("../../../proto");
    tonic_prost_build::configure()
        .build_server(false)
        .compile_protos(&[proto.join("postrider/v1/email_service.proto")], &[proto.to_path_buf()])
}
