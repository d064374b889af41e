// LoopedKernel: a GPU kernel as a struct, as BlockKernel, with blocks that repeat their phases. A thread keeps values
// in registers from phase to phase.
//
//   struct Shared;                     shared memory of a block
//   struct Private;                    what a thread keeps; starts with any bits
//   static constexpr int threads;      threads of a block
//   static constexpr int phases;       of a round; all threads of a block finish a phase before any begins the next
//   static constexpr int last_phases;  after the last round
//   int blocks() const;                blocks of a launch
//   int rounds() const;                of each block
//   template <int phase> void run(Shared&, Private&, int block, int thread, int round) const;
//   template <int phase> void finish(Shared&, Private&, int block, int thread) const;
//
// kernels/shared/looped_launch.cuh runs such a struct on a GPU, and tests/support/emulate_looped.h runs it by loops.
#pragma once

#include <concepts>

#include "carillon/core/host_device.h"

namespace carillon {

template <typename K>
concept LoopedKernel = requires(const K& kernel, typename K::Shared& shared, typename K::Private& own) {
  { K::threads } -> std::convertible_to<int>;
  { K::phases } -> std::convertible_to<int>;
  { K::last_phases } -> std::convertible_to<int>;
  { kernel.blocks() } -> std::same_as<int>;
  { kernel.rounds() } -> std::same_as<int>;
  kernel.template run<0>(shared, own, 0, 0, 0);
  kernel.template finish<0>(shared, own, 0, 0);
};

}  // namespace carillon
