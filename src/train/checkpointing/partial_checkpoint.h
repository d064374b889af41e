// Fine-tuning from a part of a checkpoint: excluded variables get their initial values.
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/step/tower.h"

namespace carillon {

/// Sets the network's variables and buffers that match one of `patterns` to initial values in the checkpoint, which may
/// lack them. Initial values of variables are `given` or drawn from `seed`. In shell patterns, `*` matches `/` too.
/// Returns the names of these variables and buffers. Errors: usage (a pattern matches no variable; lists all
/// variables).
std::vector<std::string> exclude(const std::vector<std::string>& patterns, const ParameterStore& parameters,
                                 const BufferStore& buffers, std::uint64_t seed, const std::vector<GivenValues>& given,
                                 CheckpointState& checkpoint);

}  // namespace carillon
