#include "carillon/data/shard_writer.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "carillon/core/error.h"
#include "carillon/core/handle.h"
#include "carillon/data/record.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_shard_count = 100'000;  // five digits

std::string shard_name(const std::string& split, std::size_t shard, std::size_t shard_count) {
  return fmt::format("{}-{:05}-of-{:05}.tfrecord", split, shard, shard_count);
}

/// A file that bears its name only once it is complete; abandoned, it leaves nothing behind.
class NewFile {
 public:
  explicit NewFile(fs::path path) : path_(std::move(path)), temporary_(path_) {
    temporary_ += fmt::format(".{}.tmp", ::getpid());
    descriptor_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!descriptor_) fail_here("cannot be created");
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    std::error_code ignored;
    if (!complete_) fs::remove(temporary_, ignored);
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto written = ::write(descriptor_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_here("cannot be written");
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void finish() {
    if (::fsync(descriptor_.get()) != 0) fail_here("cannot be synced");
    if (::close(descriptor_.release()) != 0) fail_here("cannot be closed");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_here("cannot be given its name");
    complete_ = true;
  }

 private:
  using Descriptor = Handle<int, ::close, -1>;
  [[noreturn]] void fail_here(std::string_view what) const {
    const int error = errno;
    fail(ExitCode::io, "{}: {}: {}", path_.string(), what, errno_text(error));
  }

  fs::path path_, temporary_;
  Descriptor descriptor_;
  bool complete_ = false;
};

/// Serialises with map entries in the order of their keys, so that equal input gives equal files.
void serialise(const proto::Example& example, std::string& out) {
  out.clear();
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  example.SerializeToCodedStream(&coded);
}

}  // namespace

void check_shards(std::span<const ImageSplit> splits, std::size_t shard_count, const fs::path& directory) {
  if (shard_count < 1 || shard_count >= max_shard_count)
    fail(ExitCode::usage, "--shards {}: must be 1 to {}", shard_count, max_shard_count - 1);
  for (const ImageSplit& split : splits)
    if (shard_count > split.count())
      fail(ExitCode::usage, "--shards {}: more than the {} records of {}", shard_count, split.count(), split.name);
  std::error_code absent;
  const std::string suffix = fmt::format("-of-{:05}.tfrecord", shard_count);
  for (const auto& entry : fs::directory_iterator(directory, absent)) {
    const std::string name = entry.path().filename().string();
    for (const ImageSplit& split : splits)
      if (name.starts_with(split.name + "-") && name.find("-of-") != std::string::npos && name.ends_with(".tfrecord") &&
          !name.ends_with(suffix))
        fail(ExitCode::usage,
             "{}: a shard of a conversion with another --shards is there; remove those or choose "
             "another directory",
             entry.path().string());
  }
}

WrittenSplit write_shards(const ImageSplit& split, std::size_t shard_count, const fs::path& directory,
                          const ExampleEncoder& encode, const std::function<void(std::size_t)>& progress) {
  constexpr std::size_t flush_bytes = std::size_t{1} << 20;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail(ExitCode::io, "{}: cannot be created: {}", directory.string(), error.message());

  WrittenSplit written{.files = {}, .record_count = split.count()};
  std::string pending, serialised;
  for (std::size_t shard = 0; shard < shard_count; ++shard) {
    const fs::path path = directory / shard_name(split.name, shard, shard_count);
    NewFile file(path);
    const auto flush = [&] {
      file.write(pending);
      written.bytes += pending.size();
      pending.clear();
    };
    const std::size_t end = split.count() * (shard + 1) / shard_count;
    for (std::size_t i = split.count() * shard / shard_count; i < end; ++i) {
      proto::Example example;
      encode(split, i, example);
      serialise(example, serialised);
      append_record(pending, serialised);
      if (pending.size() >= flush_bytes) {
        flush();
        progress(i + 1);
      }
    }
    flush();
    file.finish();
    written.files.push_back(path);
  }
  progress(split.count());
  return written;
}

}  // namespace carillon
