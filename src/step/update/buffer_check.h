// BufferCheck: finds buffers (running statistics), and their slow copies, that change in memory.
//
//   start of a step          both equal those of the last completed step
//   after the forward pass   record
//   before the averaging     the buffers equal the record
//   before the lookahead     the buffers equal the record, the slow copies those of the last completed step
//
// With micro-batches, passes do not write the buffers: until the averaging, they equal those of the last completed
// step, and the record is made after the averages are stored. A change during a forward pass that writes the buffers is
// not found.
#pragma once

#include <algorithm>
#include <vector>

#include "carillon/graph/buffers.h"
#include "src/step/update/memory_checksums.h"

namespace carillon {

class BufferCheck {
 public:
  /// Buffers, and the slow copies of their lookahead.
  struct Stores {
    const BufferStore& values;
    const BufferStore& slow;
  };
  /// `completed`: copies from the last completed step. All are in the host's memory and outlive this.
  BufferCheck(Stores present, Stores completed)
      : present_(present), completed_(completed), recorded_(present.values.values().size()) {}

  // Errors: ChangedInMemory.
  void compare_with_completed() const {
    check_values(completed_.values.values());
    check_slow();
  }
  void record() { std::ranges::copy(present_.values.values(), recorded_.begin()); }
  void compare_with_recorded() const {
    check_values(recorded_);
    check_slow();
  }

 private:
  void check_values(std::span<const float> expected) const {
    check_equal_bytes(present_.values.values(), expected, "a running statistic");
  }
  void check_slow() const {
    check_equal_bytes(present_.slow.values(), completed_.slow.values(), "a lookahead copy of a running statistic");
  }

  Stores present_, completed_;
  std::vector<float> recorded_;
};

}  // namespace carillon
