// Fine-tuning: a checkpoint of which part is left out, in favour of values that the network begins with.
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/step/tower.h"

namespace carillon {

/// Puts initial values, drawn from `seed` or `given`, in place of the checkpoint's variables and buffers whose names
/// match one of `patterns` (as a shell's; `*` matches `/` too), whether it has them or not. Returns the names of what
/// begins anew. Errors: usage (a pattern that matches nothing of the network: lists its variables).
std::vector<std::string> leave_out(const std::vector<std::string>& patterns, const ParameterStore& parameters,
                                   const BufferStore& buffers, std::uint64_t seed,
                                   const std::vector<GivenValues>& given, CheckpointState& checkpoint);

}  // namespace carillon
