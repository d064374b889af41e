// Staged communicator: averages arrays of a device through copies in host memory.
//
// start_allreduce_mean copies the bucket to the host, concurrently with other work of the device. finish waits for the
// copies in order, averages them with a host communicator, and copies the means back. The results have the same bits as
// results of the host communicator.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "src/comm/allreduce/communicator.h"

namespace carillon {

/// The copies and their order on the device.
class StagingCopies {
 public:
  virtual ~StagingCopies() = default;
  /// Called before the first copy. `host`: host memory of all copies; outlives this.
  virtual void prepare(std::span<std::byte> host) = 0;
  /// Enqueues a copy to the host. The copy waits for the work that is already on `stream`, and runs concurrently with
  /// later work. `bucket`: number of the bucket in the step, from 0.
  virtual void start_download(std::size_t bucket, std::span<const float> device, float* host, Stream& stream) = 0;
  /// True if the latest download of bucket number `bucket` is done.
  virtual bool downloaded(std::size_t bucket) = 0;
  /// Enqueues a copy to the device on `stream`.
  virtual void start_upload(std::span<const float> host, float* device, Stream& stream) = 0;
};

/// The host communicator and the device that owns its memory.
struct HostSide {
  std::unique_ptr<Device> memory;
  std::unique_ptr<Communicator> communicator;
};

/// `device` outlives the communicator.
std::unique_ptr<Communicator> make_staged_communicator(HostSide host, Device& device,
                                                       std::unique_ptr<StagingCopies> copies);

}  // namespace carillon
