// Helpers of the data tests: a scratch directory, the golden samples, Examples made by hand, and errors as values.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/dataset.h"
#include "carillon/data/decoder.h"
#include "carillon/data/record.h"
#include "data/records/example.pb.h"
#include "tests/support/failure.h"

namespace carillon {

inline const RecordSchema mnist_schema{
    .keys = {.image = "image_raw", .label = "label"}, .image_shape = {28, 28, 1}, .class_count = 10};
inline const std::shared_ptr<const RecordDecoder> mnist_decoder = grey_records(mnist_schema);

/// Returns the class number in `target`.
inline std::int32_t class_of(std::span<const std::byte> target) {
  std::int32_t number = -1;
  EXPECT_EQ(target.size(), sizeof number);
  std::memcpy(&number, target.data(), sizeof number);
  return number;
}
/// Decodes record i, a labelled image, into `image`. Returns its class.
inline std::int32_t read_class(const Dataset& dataset, std::size_t i, std::uint64_t position,
                               std::span<std::uint8_t> image) {
  std::int32_t number = -1;
  dataset.read(i, position, image, std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

/// A test with its own empty directory.
class ScratchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::temp_directory_path() /
                 fmt::format("carillon.{}.{}.{}", test->test_suite_name(), test->name(), ::getpid());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  std::filesystem::path directory_;
};

inline std::string sample_path(const std::string& name) { return std::string(CARILLON_TEST_SAMPLES) + "/" + name; }

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns `bytes` as one member of GZIP data.
inline std::string gzip_member(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Returns a serialised Example with the label `label` and an image in which each byte is `shade`.
inline std::string mnist_example(int shade, std::int64_t label, std::size_t image_bytes = 784) {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["image_raw"].mutable_bytes_list()->add_value(std::string(image_bytes, static_cast<char>(shade)));
  features["label"].mutable_int64_list()->add_value(label);
  return example.SerializeAsString();
}

/// Returns the bytes of a file with `count` records of mnist_example. Record i has shade i and label i % 10.
inline std::string mnist_records(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) append_record(bytes, mnist_example(i, i % 10));
  return bytes;
}

}  // namespace carillon
