// CommunicatorLink: the TowerLink that lets ops of all ranks communicate within a pass, through the communicator.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "carillon/graph/op.h"
#include "src/comm/allreduce/communicator.h"

namespace carillon {

class CommunicatorLink final : public TowerLink {
 public:
  /// `communicator` outlives this.
  explicit CommunicatorLink(Communicator& communicator) : communicator_(communicator) {}

  int size() const override { return communicator_.size(); }

  std::vector<double> gather(std::span<const double> own) override {
    // A double travels as the bits of two floats. Each rank's part has the length of its all-gather slice.
    const std::size_t part = aligned_float_count(own.size_bytes() / sizeof(float));
    const auto towers = static_cast<std::size_t>(size());
    floats_.resize(part * towers);
    std::memcpy(floats_.data() + part * static_cast<std::size_t>(communicator_.rank()), own.data(), own.size_bytes());
    communicator_.all_gather(floats_);
    std::vector<double> all(own.size() * towers);
    for (std::size_t tower = 0; tower < towers; ++tower) {
      std::memcpy(all.data() + own.size() * tower, floats_.data() + part * tower, own.size_bytes());
    }
    return all;
  }

 private:
  Communicator& communicator_;
  std::vector<float> floats_;
};

}  // namespace carillon
