//! Connections: how many, how slow, and how they end.

use std::future::Future;
use std::io;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::{App, router};

/// Serves until `stop` is ready; then ends open connections after their requests, or after the time for it.
///
/// # Errors
/// When no connection can be accepted any more.
pub async fn serve(listener: TcpListener, app: Arc<App>, stop: impl Future<Output = ()>) -> io::Result<()> {
    let config = app.config().clone();
    let (service, permits) = (router(app.clone()), Arc::new(Semaphore::new(config.connections)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(config.read);
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let next = async {
            let permit = permits.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(err) if is_of_one_connection(&err) => continue,
            Err(_) => {
                // There may be too many open files: what is open has to end first.
                sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        // Answers are small; they are sent at once.
        stream.set_nodelay(true)?;
        let connection =
            http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that is gone or too slow is no error of the service.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    app.stop();
    // Connections that take longer end with the process.
    let _ = timeout(config.stop, graceful.shutdown()).await;
    Ok(())
}

fn is_of_one_connection(err: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(err.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
