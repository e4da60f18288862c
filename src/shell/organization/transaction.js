/** Runs `work` as one transaction of an object's storage, and takes everything back where it says false. */
export function inTransaction(storage, work) {
  storage.transactionSync(() => {
    if (!work()) throw new Error("taken back");
  });
}
