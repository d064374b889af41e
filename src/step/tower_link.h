// CommunicatorLink: the TowerLink that lets ops of all ranks communicate within a pass, through the communicator.
#pragma once

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "carillon/graph/op.h"
#include "src/comm/allreduce/communicator.h"

namespace carillon {

class CommunicatorLink final : public TowerLink {
 public:
  /// Both outlive this.
  CommunicatorLink(Communicator& communicator, Device& device) : communicator_(communicator), device_(device) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  /// From now on, rank r works on the batch of rank batches[r]. Empty: on its own.
  void set_batches(std::vector<int> batches) { batches_ = std::move(batches); }

  std::vector<double> gather(std::span<const double> own) override {
    // A double travels as the bits of two floats. Each rank's part has the length of its all-gather slice.
    const std::size_t part = aligned_float_count(own.size_bytes() / sizeof(float));
    const auto towers = static_cast<std::size_t>(size());
    floats_.resize(part * towers);
    std::memcpy(floats_.data() + part * static_cast<std::size_t>(communicator_.rank()), own.data(), own.size_bytes());
    communicator_.all_gather(floats_, device_.stream());
    std::vector<double> all(own.size() * towers);
    for (std::size_t tower = 0; tower < towers; ++tower) {
      const std::size_t batch = batches_.empty() ? tower : static_cast<std::size_t>(batches_[tower]);
      std::memcpy(all.data() + own.size() * batch, floats_.data() + part * tower, own.size_bytes());
    }
    return all;
  }

  void gather_rows(std::span<float> rows, Stream& stream) override { communicator_.all_gather(rows, stream); }

 private:
  Communicator& communicator_;
  Device& device_;
  std::vector<float> floats_;
  std::vector<int> batches_;
};

}  // namespace carillon
