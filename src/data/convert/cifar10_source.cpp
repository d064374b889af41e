// CIFAR-10 source format: the binary version (https://www.cs.toronto.edu/~kriz/cifar.html), as a folder or a tar
// archive. The files are data_batch_1.bin ... data_batch_5.bin (train) and test_batch.bin (test). A file is a sequence
// of records:
//   u8 label, 0 to 9 | 1024 x u8 red | 1024 x u8 green | 1024 x u8 blue, each plane row-major 32 x 32
#include "src/data/convert/shard_writer.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>

#include "carillon/core/error.h"
#include "src/data/convert/source_file.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t image_bytes = 3 * 32 * 32, record_bytes = 1 + image_bytes;
constexpr std::uint8_t class_count = 10;
constexpr std::uint64_t max_archive_bytes = std::uint64_t{1} << 30;  // CIFAR-10's archive has 176 MiB

constexpr const char* folder_name = "cifar-10-batches-bin";
constexpr const char* python_version = "contains CIFAR-10's Python version; download the binary version (*.bin)";
constexpr std::array train_names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                    "data_batch_5.bin"};
constexpr const char* test_name = "test_batch.bin";

/// Bytes of a source file, and its name in error messages.
struct Batch {
  std::string title;
  std::vector<std::uint8_t> bytes;
};
using Batches = std::map<std::string, Batch>;  // batches by file name

bool is_wanted(const std::string& name) { return name == test_name || std::ranges::count(train_names, name) > 0; }

bool is_python_version(const std::string& name) { return name == "data_batch_1" || name == "test_batch"; }

Batches read_folder(const fs::path& input) {
  std::error_code error;  // errors are ignored, because opening the files reports them
  const fs::path folder = fs::is_directory(input / folder_name, error) ? input / folder_name : input;
  if (!fs::exists(folder / test_name, error) && fs::exists(folder / "test_batch", error))
    fail(ExitCode::data, "{}: {}", folder.string(), python_version);
  Batches batches;
  const auto add = [&](const std::string& name) {
    SourceFile file((folder / name).string());
    batches[name] = {file.path(), file.take(max_archive_bytes)};
  };
  std::ranges::for_each(train_names, add);
  add(test_name);
  return batches;
}

Batches read_archive(const std::string& path) {
  ArchiveReader archive(path, max_archive_bytes);
  Batches batches;
  bool python = false;
  for (ArchiveMember member; archive.next(member);) {
    const std::string name = fs::path(member.name).filename().string();
    python = python || is_python_version(name);
    if (!is_wanted(name) || !member.is_file) continue;
    if (batches.contains(name)) fail(ExitCode::data, "{}: contains {} twice", path, name);
    batches[name] = {fmt::format("{}: {}", path, member.name), archive.content()};
  }
  if (batches.empty() && python) fail(ExitCode::data, "{}: {}", path, python_version);
  const auto require = [&](const std::string& name) {
    if (!batches.contains(name)) fail(ExitCode::data, "{}: contains no file {}", path, name);
  };
  std::ranges::for_each(train_names, require);
  require(test_name);
  return batches;
}

/// Appends the records of `batch` to `split`.
void append(const Batch& batch, ImageSplit& split) {
  const std::size_t count = batch.bytes.size() / record_bytes, excess = batch.bytes.size() % record_bytes;
  if (count == 0 || excess > 0)
    fail(ExitCode::data,
         "{}: {} bytes, not a whole number of records of {} bytes: truncated, or not CIFAR-10's binary version",
         batch.title, batch.bytes.size(), record_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto record = std::span(batch.bytes).subspan(i * record_bytes, record_bytes);
    if (record[0] >= class_count)
      fail(ExitCode::data, "{}: record {} at byte {}: label {} is outside 0..{}", batch.title, i, i * record_bytes,
           record[0], class_count - 1);
    split.labels.push_back(record[0]);
    split.images.insert(split.images.end(), record.begin() + 1, record.end());
  }
}

}  // namespace

std::vector<ImageSplit> read_cifar10(const fs::path& input) {
  std::error_code error;
  const fs::file_status status = fs::status(input, error);
  if (status.type() == fs::file_type::not_found) {
    fail(ExitCode::no_input, "{}: no such folder or archive", input.string());
  }
  const Batches batches = fs::is_directory(status) ? read_folder(input) : read_archive(input.string());
  ImageSplit train{.name = "train", .image_bytes = image_bytes, .images = {}, .labels = {}};
  ImageSplit test{.name = "test", .image_bytes = image_bytes, .images = {}, .labels = {}};
  const Batch& first = batches.at(train_names.front());
  for (const char* name : train_names) {
    const Batch& batch = batches.at(name);
    append(batch, train);
    if (batch.bytes.size() != first.bytes.size())
      fail(ExitCode::data, "{}: {} bytes, but {} has {}: one of them is truncated", batch.title, batch.bytes.size(),
           train_names.front(), first.bytes.size());
  }
  append(batches.at(test_name), test);
  return {std::move(train), std::move(test)};
}

void encode_cifar10(const ImageSplit& split, std::size_t i, proto::Example& example) {
  auto& features = *example.mutable_features()->mutable_feature();
  const auto image = split.image(i);
  features["image"].mutable_bytes_list()->add_value(image.data(), image.size());
  features["label"].mutable_int64_list()->add_value(split.labels[i]);
}

}  // namespace carillon
