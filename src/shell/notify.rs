//! A condition variable inside one object: wait for "something changed", then look again.

use std::cell::RefCell;

use futures_channel::oneshot;

/// Whoever waits is woken by the next [`Notify::wake_all`].
#[derive(Debug, Default)]
pub(crate) struct Notify {
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
}

impl Notify {
    /// A future that ends with the next wake-up. Registered when called, not when first polled.
    pub(crate) fn changed(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|sender| !sender.is_canceled());
        waiting.push(sender);
        receiver
    }

    /// Wakes everybody who waits now.
    pub(crate) fn wake_all(&self) {
        for sender in self.waiting.take() {
            // A receiver that is gone does not wait any more.
            let _ = sender.send(());
        }
    }
}
