#include "src/step/cuda_step_table.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "carillon/core/error.h"

namespace carillon {

void CudaStepTable::Mirrored::copy(std::size_t offset, std::size_t bytes, const CudaStream& stream) const {
  check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(device.data()) + offset, at(offset), bytes, cudaMemcpyHostToDevice,
                             stream.get()));
}

CudaStepTable::CudaStepTable(CudaDevice& device, std::size_t batch_size, std::size_t image_bytes,
                             std::uint32_t capacity, const Dataset* dataset)
    : batch_size_(batch_size),
      image_bytes_(image_bytes),
      capacity_(capacity),
      entry_bytes_(StepTable::bytes_of_entry(batch_size)),
      entries_(device, std::size_t{capacity} * entry_bytes_),
      step_counter_(device.allocate(sizeof(std::uint64_t))),
      blocks_done_(device.allocate(sizeof(std::uint32_t))),
      outcomes_(device.allocate_pinned(capacity * sizeof(StepOutcome))) {
  if (keeps_on_device(device, dataset)) {
    keep(device, *dataset);
  } else {
    images_ = Mirrored(device, std::size_t{capacity} * batch_size * image_bytes);
    labels_ = Mirrored(device, std::size_t{capacity} * batch_size * sizeof(std::int32_t));
  }
}

bool CudaStepTable::keeps_on_device(const CudaDevice& device, const Dataset* dataset) {
  return dataset != nullptr && dataset->in_memory() &&
         dataset->size() * (dataset->image_bytes() + sizeof(std::int32_t)) <= device.free_bytes() / 2;
}

void CudaStepTable::keep(CudaDevice& device, const Dataset& dataset) {
  constexpr std::size_t piece = 4096;  // records copied at a time, through memory that lies in one block
  const std::size_t image_bytes = dataset.image_bytes(), count = dataset.size();
  check(image_bytes == image_bytes_, "the data set's images are of another size");
  kept_images_ = device.allocate(count * image_bytes);
  kept_labels_ = device.allocate(count * sizeof(std::int32_t));
  std::vector<std::uint8_t> images(std::min(piece, count) * image_bytes);
  std::vector<std::int32_t> labels(std::min(piece, count));
  for (std::size_t first = 0; first < count; first += piece) {
    const std::size_t records = std::min(piece, count - first);
    for (std::size_t i = 0; i < records; ++i) {
      std::memcpy(images.data() + i * image_bytes, dataset.image(first + i), image_bytes);
      labels[i] = dataset.label(first + i);
    }
    device.upload(images.data(), static_cast<std::byte*>(kept_images_.data()) + first * image_bytes,
                  records * image_bytes);
    device.upload(labels.data(), static_cast<std::int32_t*>(kept_labels_.data()) + first,
                  records * sizeof(std::int32_t));
  }
}

StepInputs CudaStepTable::inputs() const {
  const bool kept = kept_images_.data() != nullptr;
  StepInputs inputs;
  inputs.table = {.entries = static_cast<const std::byte*>(entries_.device.data()),
                  .entry_bytes = entry_bytes_,
                  .capacity = capacity_,
                  .step_counter = static_cast<const std::uint64_t*>(step_counter_.data()),
                  .images = static_cast<const std::uint8_t*>(kept ? kept_images_.data() : images_.device.data()),
                  .image_bytes = static_cast<std::uint32_t>(image_bytes_),
                  .labels = static_cast<const std::int32_t*>(kept ? kept_labels_.data() : labels_.device.data())};
  inputs.progress = {.step_counter = static_cast<std::uint64_t*>(step_counter_.data()),
                     .blocks_done = static_cast<std::uint32_t*>(blocks_done_.data()),
                     .outcomes = static_cast<StepOutcome*>(outcomes_.data()),
                     .capacity = capacity_};
  return inputs;
}

void CudaStepTable::write(std::uint32_t slot, const Batch& batch, const UpdateStep& update, bool request_stop) {
  check(batch.images.size() == batch_size_, "a batch of another size");
  std::byte* const entry = entries_.at(std::size_t{slot} * entry_bytes_);
  const StepHeader header{.first_position = batch.first_position,
                          .learning_rate = static_cast<float>(update.learning_rate),
                          .average_decay = static_cast<float>(update.average_decay),
                          .stop = request_stop ? 1.0f : 0.0f};
  std::memcpy(entry, &header, sizeof(header));
  auto* const rows = reinterpret_cast<std::uint32_t*>(entry + sizeof(header));
  if (kept_images_.data() != nullptr) {
    check(batch.records.size() == batch_size_, "a batch that does not know its records");
    std::copy(batch.records.begin(), batch.records.end(), rows);
  } else {
    for (std::size_t i = 0; i < batch_size_; ++i) rows[i] = static_cast<std::uint32_t>(slot * batch_size_ + i);
    write_images(slot, batch);
  }
}

void CudaStepTable::write_images(std::uint32_t slot, const Batch& batch) {
  for (std::size_t i = 0; i < batch_size_; ++i) {
    std::memcpy(images_.at((slot * batch_size_ + i) * image_bytes_), batch.images[i], image_bytes_);
  }
  std::memcpy(labels_.at(slot * batch_size_ * sizeof(std::int32_t)), batch.labels.data(), batch.labels.size_bytes());
}

void CudaStepTable::upload(std::uint32_t first, std::uint32_t count, const CudaStream& stream) {
  const auto copy = [&](const Mirrored& memory, std::size_t slot_bytes) {
    memory.copy(first * slot_bytes, count * slot_bytes, stream);
  };
  copy(entries_, entry_bytes_);
  if (kept_images_.data() != nullptr) return;
  copy(images_, batch_size_ * image_bytes_);
  copy(labels_, batch_size_ * sizeof(std::int32_t));
}

StepOutcome CudaStepTable::outcome(std::uint32_t slot) const {
  return static_cast<const StepOutcome*>(outcomes_.data())[slot];
}

}  // namespace carillon
