// Averages arrays of a device through copies of them in the host's memory.
//
// start_allreduce_mean copies the bucket to the host, beside the device's other work; finish waits for the copies in
// turn, lets a host communicator average them, and copies the means back. Sums are those of the host communicator, bit
// for bit.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "src/comm/allreduce/communicator.h"

namespace carillon {

/// The copies, and what orders them on the device.
class StagingCopies {
 public:
  virtual ~StagingCopies() = default;
  /// Before any copy: the host's memory of all of them, which outlives this.
  virtual void prepare(std::span<std::byte> host) = 0;
  /// Enqueues a copy to the host, behind what `stream` has now and beside what it is given later.
  /// `bucket`: its number in the step, from 0.
  virtual void start_download(std::size_t bucket, std::span<const float> device, float* host, Stream& stream) = 0;
  /// Whether the latest download number `bucket` is done.
  virtual bool downloaded(std::size_t bucket) = 0;
  /// Enqueues a copy to the device, on `stream`.
  virtual void start_upload(std::span<const float> host, float* device, Stream& stream) = 0;
};

/// What averages in the host's memory, and what it takes that from.
struct HostSide {
  std::unique_ptr<Device> memory;
  std::unique_ptr<Communicator> communicator;
};

/// `device` outlives the communicator.
std::unique_ptr<Communicator> make_staged_communicator(HostSide host, Device& device,
                                                       std::unique_ptr<StagingCopies> copies);

}  // namespace carillon
