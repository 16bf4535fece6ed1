"""What the trainings in PyTorch have in common where they run on a GPU."""

import queue
import threading
import time

import torch


def add_option(parser):
    parser.add_argument("--device", default="cpu", help="cpu or cuda")


def clock(device):
    """Seconds: of the processor where it computes, else of the day, after what the GPU has to do."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def on_device(batches, device):
    """The tensors of each batch on the device. For a GPU a thread makes them and sends them ahead."""
    if device == "cpu":
        yield from batches
        return
    torch.backends.cudnn.allow_tf32 = False  # as the products: float32
    waiting, end = queue.Queue(16), []

    def make():
        try:
            for batch in batches:
                waiting.put([part.pin_memory().to(device, non_blocking=True) for part in batch])
        except BaseException as error:
            end.append(error)
        waiting.put(None)

    threading.Thread(target=make, daemon=True).start()
    while (batch := waiting.get()) is not None:
        yield batch
    if end:
        raise end[0]
