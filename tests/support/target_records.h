// Records that hold the pixels of an image and a target of any type and shape, and datasets of such records.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/dataset.h"
#include "carillon/data/record.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {

/// Decodes records that consist of the bytes of an image and then the bytes of a target.
class PixelsAndTargetDecoder final : public RecordDecoder {
 public:
  PixelsAndTargetDecoder(const ImageShape& image, const TargetSpec& spec) : RecordDecoder(image, spec) {}
  void decode(std::span<const std::uint8_t> record, std::uint64_t /*position*/, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    if (record.size() != image.size() + target.size()) fail(ExitCode::data, "has {} bytes", record.size());
    std::ranges::copy(record.first(image.size()), image.begin());
    std::ranges::copy(std::as_bytes(record.subspan(image.size())), target.begin());
  }
};

/// Makes a dataset in memory. `images` and `targets` hold the bytes of all samples, one after the other.
inline Dataset dataset_with_targets(const ImageShape& image, const TargetSpec& spec,
                                    std::span<const std::uint8_t> images, std::span<const std::byte> targets) {
  std::string bytes;
  for (std::size_t i = 0; i < targets.size() / spec.bytes(); ++i) {
    const auto target = targets.subspan(i * spec.bytes(), spec.bytes());
    std::string record(reinterpret_cast<const char*>(images.data()) + i * image.bytes(), image.bytes());
    record.append(reinterpret_cast<const char*>(target.data()), target.size());
    append_record(bytes, record);
  }
  const TemporaryDirectory directory;
  write_text(directory.path() / "records", bytes);
  const std::vector<std::string> paths{(directory.path() / "records").string()};
  return Dataset::open(paths, std::make_shared<PixelsAndTargetDecoder>(image, spec), CacheMode::memory);
}

}  // namespace carillon::testing
