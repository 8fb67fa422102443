//! The service of the digits model: `cargo run --release -p service [ADDRESS] [--benchmark]`. `README.md` has the details.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is an application")]

use std::error::Error;
use std::path::Path;

use service::{App, Config, Digits, serve};
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let address = args.iter().find(|it| !it.starts_with("--")).map_or("127.0.0.1:8080", String::as_str);
    let config = Config { benchmark: args.iter().any(|it| it == "--benchmark"), ..Config::default() };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/digits_cnn/model.onnx");
    let app = App::new(Digits::new(&path, config.batch)?, config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        println!("listening on http://{}", listener.local_addr()?);
        serve(listener, app, stop()).await
    });
    runtime.shutdown_background();
    println!("stopped");
    Ok(result?)
}

/// Ready when the process is asked to end.
async fn stop() {
    let interrupt = async { drop(tokio::signal::ctrl_c().await) };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
