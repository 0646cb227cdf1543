"""Several processes that learn, as far as that is sound.

models      MMOH's models on several processes, bit for bit the one learner
shards      several learners on parts of the pairs, made one now and then: another learner, nearly as good
averaging   one learner out of several
"""

from onlinehash.parallel.averaging import add_up, average
from onlinehash.parallel.models import ParallelModels
from onlinehash.parallel.shards import learn_on_shards

__all__ = ["ParallelModels", "add_up", "average", "learn_on_shards"]
