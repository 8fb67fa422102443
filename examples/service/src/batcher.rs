//! Batches without a delay: while the model computes one batch, the requests that come form the next one.
//!
//! A batch is cancelled when nobody waits for it any more, because all of its requests timed out or were given up.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use tvm::runtime::vm::CancelToken;

use crate::{Answer, Config, Engine, Image, Metrics};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Too many images wait.
    #[error("too many requests wait")]
    Full,
    /// The service stops.
    #[error("the service stops")]
    Stopping,
    /// The model failed.
    #[error("the model failed: {0}")]
    Model(String),
}

/// Passes images to the model, and answers back.
pub(crate) struct Batcher {
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

struct Job {
    image: Image,
    waiter: Arc<Waiter>,
    reply: oneshot::Sender<Result<Answer, Failure>>,
}

/// What a request and the batch that it is in know of each other.
#[derive(Default)]
struct Waiter(Mutex<Stage>);

#[derive(Default)]
enum Stage {
    #[default]
    Queued,
    Running(Arc<Batch>),
    Gone,
}

struct Batch {
    waiting: AtomicUsize,
    cancel: CancelToken,
}

impl Batch {
    fn leave(&self) {
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.cancel.cancel();
        }
    }
}

impl Waiter {
    /// Takes part in `batch`; false if nobody waits.
    fn join(&self, batch: &Arc<Batch>) -> bool {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*stage, Stage::Gone) {
            return false;
        }
        batch.waiting.fetch_add(1, Ordering::AcqRel);
        *stage = Stage::Running(batch.clone());
        true
    }
}

/// Ends the wait when it is dropped.
struct Wait(Arc<Waiter>);

impl Drop for Wait {
    fn drop(&mut self) {
        let mut stage = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Stage::Running(batch) = std::mem::replace(&mut *stage, Stage::Gone) {
            batch.leave();
        }
    }
}

impl Batcher {
    /// Starts the thread that calls `engine`.
    pub(crate) fn start(
        engine: Arc<dyn Engine>,
        metrics: Arc<Metrics>,
        config: &Config,
    ) -> io::Result<Batcher> {
        let (queue, jobs) = mpsc::channel(config.queue.max(1));
        let batch = config.batch.max(1);
        let thread = std::thread::Builder::new()
            .name("model".into())
            .spawn(move || serve(&*engine, &metrics, jobs, batch))?;
        Ok(Batcher { queue: Some(queue), thread: Some(thread) })
    }

    /// Waits for the answer for `image`. Who drops the future gives the answer up.
    pub(crate) async fn classify(&self, image: Image) -> Result<Answer, Failure> {
        let waiter = Arc::new(Waiter::default());
        let (reply, answer) = oneshot::channel();
        let job = Job { image, waiter: waiter.clone(), reply };
        let queue = self.queue.as_ref().ok_or(Failure::Stopping)?;
        queue.try_send(job).map_err(|err| match err {
            mpsc::error::TrySendError::Full(_) => Failure::Full,
            mpsc::error::TrySendError::Closed(_) => Failure::Stopping,
        })?;
        let _wait = Wait(waiter);
        answer.await.unwrap_or(Err(Failure::Stopping))
    }
}

/// Waits until the thread has answered all that waits.
impl Drop for Batcher {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends with its queue; a panic in it was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn serve(engine: &dyn Engine, metrics: &Metrics, mut jobs: mpsc::Receiver<Job>, most: usize) {
    let (mut waiting, mut images) = (Vec::with_capacity(most), Vec::with_capacity(most));
    while jobs.blocking_recv_many(&mut waiting, most) > 0 {
        // One more than there are requests: a batch that is being gathered is not cancelled.
        let batch = Arc::new(Batch { waiting: AtomicUsize::new(1), cancel: CancelToken::new() });
        waiting.retain(|job| job.waiter.join(&batch));
        batch.leave();
        if waiting.is_empty() {
            continue;
        }
        images.clear();
        images.extend(waiting.iter().map(|job| job.image));
        let result = engine.run(&images, &batch.cancel);
        metrics.batch(images.len(), batch.cancel.is_cancelled());
        match result {
            Ok(answers) if answers.len() == waiting.len() => {
                // Who gave up does not take its answer.
                waiting.drain(..).zip(answers).for_each(|(job, answer)| drop(job.reply.send(Ok(answer))));
            }
            Ok(answers) => {
                let message = format!("{} answers for {} images", answers.len(), images.len());
                fail(&mut waiting, &message);
            }
            Err(message) => fail(&mut waiting, &message),
        }
    }
}

fn fail(waiting: &mut Vec<Job>, message: &str) {
    waiting.drain(..).for_each(|job| drop(job.reply.send(Err(Failure::Model(message.into())))));
}
