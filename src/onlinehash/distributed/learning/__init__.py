"""Several processes that learn, as far as that is sound.

models      MMOH's models on several processes, bit for bit the one learner
shards      several learners on parts of the pairs, averaged now and then: another learner, maybe as good
averaging   one learner out of several
"""

from onlinehash.distributed.learning.averaging import average
from onlinehash.distributed.learning.models import ParallelModels
from onlinehash.distributed.learning.shards import learn_on_shards

__all__ = ["ParallelModels", "average", "learn_on_shards"]
