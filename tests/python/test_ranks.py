"""Communicators: one rank alone, threads as ranks, an engine in Python, training over ranks."""

import threading

import numpy as np
import pytest

import headway
from headway import Tensor, ops


def on_ranks(size, work):
    """work(ranks) on threads; the results in the order of the ranks. The first error is raised."""
    results, errors = [None] * size, []

    def run(ranks):
        try:
            results[ranks.rank] = work(ranks)
        except Exception as error:
            errors.append(error)
            ranks.fail(str(error))

    threads = [threading.Thread(target=run, args=(ranks,)) for ranks in headway.Communicator.local(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def test_one_rank_alone():
    alone = headway.Communicator()
    values = headway.tensor(np.ones(3, np.float32))
    alone.all_reduce(values)
    alone.barrier()
    assert (alone.rank, alone.size) == (0, 1)
    assert np.from_dlpack(alone.all_gather(values)).tolist() == [1, 1, 1]
    assert headway.Communicator.world().size == 1
    assert repr(alone) == "Communicator(rank 0 of 1, one rank alone)"


def test_operations_of_threads():
    def work(ranks):
        values = headway.tensor(np.arange(10, dtype=np.float32) + ranks.rank)
        ranks.all_reduce(values)
        share = ranks.reduce_scatter(headway.tensor(np.ones((6, 2), np.float32)))
        gathered = ranks.all_gather(headway.tensor(np.full(2, ranks.rank, np.int64)))
        greatest = headway.tensor(np.full(1, ranks.rank, np.float64))
        ranks.all_reduce(greatest, "max")
        first = headway.tensor(np.full(1, ranks.rank, np.float32))
        ranks.broadcast(first, root=1)
        half = ranks.split(ranks.rank % 2)
        arrays = [np.array(np.from_dlpack(tensor)) for tensor in (values, share, gathered, greatest, first)]
        return (*arrays, half.size, ranks.counts["bytes_sent"])

    for values, share, gathered, greatest, first, half, sent in on_ranks(3, work):
        assert values.tolist() == [3 * i + 3 for i in range(10)]
        assert share.tolist() == [[3, 3], [3, 3]]
        assert gathered.tolist() == [0, 0, 1, 1, 2, 2]
        assert (greatest[0], first[0]) == (2, 1)
        assert half in (1, 2) and sent > 0


def test_a_rank_that_fails_ends_the_others():
    def work(ranks):
        if ranks.rank == 1:
            raise ValueError("no third share")
        ranks.barrier()

    with pytest.raises(ValueError, match="no third share"):
        on_ranks(2, work)


def test_bad_arguments():
    with pytest.raises(ValueError, match="size is 0, expected 1 or more"):
        headway.Communicator.local(0)
    with pytest.raises(ValueError, match="how is"):
        headway.Communicator().all_reduce(headway.tensor(np.ones(1, np.float32)), "mean")


class Queues:
    """An engine in Python: messages are copies that wait in lists."""

    devices = ["cpu"]

    def __init__(self, rank, size, boxes, changed):
        self.rank, self.size, self._boxes, self._changed = rank, size, boxes, changed

    def start(self, sent, received):
        with self._changed:
            for to, values in sent:
                self._boxes.setdefault((self.rank, to), []).append(np.array(np.from_dlpack(values)))
            self._changed.notify_all()
        return Waiting(self, received)


class Waiting:
    def __init__(self, engine, received):
        self._engine, self._received = engine, received

    def done(self):
        return not self._received

    def wait(self):
        with self._engine._changed:
            for source, values in self._received:
                box = self._engine._boxes.setdefault((source, self._engine.rank), [])
                assert self._engine._changed.wait_for(lambda: box, timeout=20)
                np.from_dlpack(values)[...] = box.pop(0)
        self._received = []


def test_an_engine_in_python():
    boxes, changed, results = {}, threading.Condition(), {}

    def run(rank):
        ranks = headway.Communicator.of_engine(Queues(rank, 2, boxes, changed))
        flags = headway.tensor(np.array([rank == 0, False]))
        ranks.all_reduce(flags)
        results[rank] = np.array(np.from_dlpack(flags)).tolist()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: [True, False], 1: [True, False]}


def test_training_over_ranks_is_that_of_one():
    def trained(ranks, accumulate):
        headway.set_random_seed(3)
        layer = headway.Linear(3, 1)
        start = Tensor.randn([1, 3], seed=5)
        layer.load_state_dict({"weight": start, "bias": Tensor.randn([1], seed=6)})
        optimizer = headway.Sgd(layer, learning_rate=0.05)

        def loss_of(step, part, index):
            x = Tensor.randn([8, 3], seed=index)
            error = layer(x) - ops.sum(x, [1], True)
            return ops.mean(error * error), 8

        reports = []
        headway.train(layer, optimizer, lambda step: 0.05, loss_of, steps=5, accumulate=accumulate, ranks=ranks,
                      on_step=reports.append)
        assert reports[-1]["ranks"] == (1 if ranks is None else ranks.size)
        return np.array(np.from_dlpack(layer.state_dict()["weight"]))

    expected = trained(None, 2)
    for weight in on_ranks(2, lambda ranks: trained(ranks, 1)):
        assert np.array_equal(weight, expected)
