#include "src/tasks/stored_samples.h"

#include <cstring>

#include "carillon/core/error.h"

namespace carillon {

void StoredSamples::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  check(outputs.size() % columns_ == 0 && targets.size() == outputs.size() / columns_ * target_bytes_,
        "outputs and targets must be of equally many samples");
  outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
}

// Format: for each sample, its outputs and its target.
std::string StoredSamples::contents() const {
  const std::size_t output_bytes = columns_ * sizeof(float);
  std::string contents(count() * (output_bytes + target_bytes_), '\0');
  char* at = contents.data();
  for (std::size_t i = 0; i < count(); ++i) {
    std::memcpy(at, outputs_.data() + i * columns_, output_bytes);
    std::memcpy(at + output_bytes, targets_.data() + i * target_bytes_, target_bytes_);
    at += output_bytes + target_bytes_;
  }
  return contents;
}

void StoredSamples::merge(std::string_view contents) {
  const std::size_t output_bytes = columns_ * sizeof(float), sample_bytes = output_bytes + target_bytes_;
  if (contents.size() % sample_bytes != 0) {
    fail(ExitCode::failed, "these bytes are not the contents of a metric with the same outputs and targets");
  }
  const std::size_t before = count(), added = contents.size() / sample_bytes;
  outputs_.resize((before + added) * columns_);
  targets_.resize((before + added) * target_bytes_);
  for (std::size_t i = 0; i < added; ++i) {
    const char* const at = contents.data() + i * sample_bytes;
    std::memcpy(outputs_.data() + (before + i) * columns_, at, output_bytes);
    std::memcpy(targets_.data() + (before + i) * target_bytes_, at + output_bytes, target_bytes_);
  }
}

}  // namespace carillon
