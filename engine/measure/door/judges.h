// The judge of each family.
#pragma once

#include "engine/measure/door/input.h"
#include "engine/measure/door/judge.h"

namespace versieve::engine {

Judgement judge_topk(DoorInput& input, DoorInput& answers, const DoorRequest& request);
Judgement judge_nsa_verify(DoorInput& input, DoorInput& answers, const DoorRequest& request);
Judgement judge_spec_sample(DoorInput& input, DoorInput& answers, const DoorRequest& request);
Judgement judge_tree_sample(DoorInput& input, DoorInput& answers, const DoorRequest& request);

}  // namespace versieve::engine
