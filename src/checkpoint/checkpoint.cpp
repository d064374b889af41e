// Reads and writes a checkpoint file.
#include "src/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint_bytes.h"
#include "src/checkpoint/hdf5_image.h"
#include "src/checkpoint/renamed_models.h"

namespace carillon {
namespace {

[[noreturn]] void fail_reading(const std::string& subject, int error) {
  fail(ExitCode::io, "{}: cannot be read: {}", subject, errno_text(error));
}

/// Reads the whole file. Checks header and length before it allocates memory for the rest.
std::vector<std::byte> read_file(const std::filesystem::path& path, const std::string& subject,
                                 std::uint64_t max_bytes) {
  const Descriptor descriptor = open_plain_file(path, subject);
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) fail_reading(subject, errno);

  std::vector<std::byte> bytes(checkpoint_header_bytes);
  std::size_t count = 0;
  if (const int error = read_all(descriptor.get(), bytes, count)) fail_reading(subject, error);
  bytes.resize(count);
  const auto image_bytes = announced_image_bytes(bytes, subject);
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (file_bytes < count || file_bytes - count != image_bytes) {
    fail(ExitCode::data, "{}: damaged: {} bytes follow its header, expected {}", subject,
         static_cast<std::int64_t>(info.st_size) - static_cast<std::int64_t>(count), image_bytes);
  }
  if (file_bytes > max_bytes) {
    throw RefusedCheckpoint(
        ExitCode::data, fmt::format("{}: has {} bytes, and at most {} are read here: it is probably of another network",
                                    subject, file_bytes, max_bytes));
  }
  bytes.resize(count + image_bytes);
  std::size_t image_count = 0;
  const int error = read_all(descriptor.get(), std::span(bytes).subspan(count), image_count);
  if (error != 0) fail_reading(subject, error);
  bytes.resize(count + image_count);
  return bytes;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, CheckpointState state) {
  write_file_atomically(path, encode_checkpoint(std::move(state)));
}

CheckpointState read_checkpoint(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const auto subject = "checkpoint " + path.string();
  const auto file = read_file(path, subject, max_bytes);
  CheckpointState state = parse_hdf5_image(verified_image(file, subject), subject);
  state.model = present_model_name(state);
  return state;
}

}  // namespace carillon
