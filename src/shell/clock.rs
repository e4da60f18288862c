//! The only place that reads the time, or waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;

/// Milliseconds since the Unix epoch. On this platform it moves only with I/O.
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> u64 {
    worker::Date::now().as_millis()
}

/// Ends after that time. Dropped before, it leaves no timer behind.
#[allow(clippy::disallowed_types, reason = "this is the clock")]
pub(crate) fn sleep(duration: Duration) -> Sleep {
    Sleep { delay: Box::pin(worker::Delay::from(duration)), latest: Arc::default() }
}

/// A future of [`sleep`]. The platform's own wakes only the task that polled it first; this one may move to another task.
#[allow(clippy::disallowed_types, reason = "this is the clock")]
pub(crate) struct Sleep {
    delay: Pin<Box<worker::Delay>>,
    latest: Arc<Latest>,
}

#[derive(Default)]
struct Latest(AtomicWaker);

impl Wake for Latest {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.latest.0.register(context.waker());
        let waker = Waker::from(Arc::clone(&self.latest));
        self.delay.as_mut().poll(&mut Context::from_waker(&waker))
    }
}
