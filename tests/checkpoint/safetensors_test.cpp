#include "src/checkpoint/array_files.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path sample = std::filesystem::path(CARILLON_TEST_SAMPLES) / "tensors.safetensors";

NamedArray array_of(const SafetensorsFile& file, const std::string& name) {
  const auto entry = std::ranges::find(file.entries(), name, &SafetensorsEntry::name);
  if (entry == file.entries().end()) throw std::runtime_error("no " + name);
  return file.read(*entry);
}

/// Returns a file with this header and `data_bytes` bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  file.append(data_bytes, '\1');
  return file;
}

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "a.safetensors"; }

  void expect_refused(const std::string& file, const std::string& reason) const {
    write_text(path(), file);
    const Error error = error_of([&] { SafetensorsFile opened(path()); });
    EXPECT_EQ(error.code(), ExitCode::data) << reason;
    EXPECT_THAT(error.what(), HasSubstr(path().string()));
    EXPECT_THAT(error.what(), HasSubstr(reason));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("\n")));
  }

  TemporaryDirectory directory_;
};

TEST_F(Safetensors, AHeaderOfManyArraysTakesLinearTime) {
  constexpr std::size_t count = 60'000;
  std::string header = "{";
  for (std::size_t i = 0; i < count; ++i) {
    header +=
        fmt::format(R"({}"{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i == 0 ? "" : ",", i, i, i + 1);
  }
  write_text(path(), file_of(header + "}", count));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(SafetensorsFile(path()).entries().size(), count);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(Safetensors, ReadsTheFilesOfTheFormatsOwnLibrary) {
  const SafetensorsFile file(sample);
  EXPECT_EQ(file.entries().size(), 6u);
  const NamedArray f32 = array_of(file, "f32");
  const std::vector<float> values{
      0.0f, -0.0f, 1.0f, -2.5f, 65504.0f, std::ldexp(1.0f, -24), std::ldexp(1.0f, -14), 0.1f, INFINITY, -INFINITY};
  EXPECT_THAT(f32.shape, ElementsAre(2, 5));
  EXPECT_EQ(f32.values, values);
  EXPECT_TRUE(std::signbit(f32.values[1]));
  std::vector<float> halves = values, bfloats = values;
  halves[7] = 0.0999755859375f;
  bfloats[7] = 0.10009765625f;
  bfloats[4] = 65536.0f;
  EXPECT_EQ(array_of(file, "f16").values, halves);
  EXPECT_EQ(array_of(file, "bf16").values, bfloats);
  EXPECT_TRUE(array_of(file, "layer.größe").shape.empty());
  EXPECT_EQ(array_of(file, "layer.größe").values, std::vector<float>{3.0f});
  EXPECT_THAT(array_of(file, "empty").shape, ElementsAre(0, 4));
}

TEST_F(Safetensors, OtherTypesAreListedAndNotRead) {
  const SafetensorsFile file(sample);
  const auto error = error_of([&] { array_of(file, "norm.num_batches_tracked"); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("'norm.num_batches_tracked' has the dtype I64"));
}

TEST_F(Safetensors, WritesWhatItReads) {
  const std::vector<NamedArray> arrays{{"a.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"b", {}, {7}}, {"c", {0}, {}}};
  write_safetensors(path(), arrays);
  const SafetensorsFile file(path());
  ASSERT_EQ(file.entries().size(), 3u);
  for (const NamedArray& array : arrays) {
    EXPECT_EQ(array_of(file, array.name).values, array.values);
    EXPECT_EQ(array_of(file, array.name).shape, array.shape);
  }
  const std::string bytes = read_text(path());
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(header % 8, 0u) << "the data is aligned";
  const std::string text = bytes.substr(8, header);
  EXPECT_EQ(
      text.substr(0, text.find_last_not_of(' ') + 1),
      R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[24,28]},"c":{"dtype":"F32","shape":[0],"data_offsets":[28,28]}})");
}

TEST_F(Safetensors, DamagedHeadersAreRefused) {
  const auto entry = [](const char* type, const char* shape, const char* offsets) {
    return fmt::format(R"({{"w":{{{}{}{}"other":0}}}})", type, shape, offsets);
  };
  const char* const type = R"("dtype":"F32",)";
  const char* const shape = R"("shape":[2],)";
  const char* const offsets = R"("data_offsets":[0,8],)";
  expect_refused("1234567", "has 7 bytes");
  expect_refused("version https://git-lfs.github.com/spec/v1\n", "git lfs pull");
  expect_refused("<!DOCTYPE html>\n", "web page");
  expect_refused(file_of("{}", 0).substr(0, 9), "is no safetensors file, or cut: a header of 2 bytes in a file of 9");
  expect_refused(std::string(8, '\xff'), "a header of 18446744073709551615 bytes");
  expect_refused(file_of("[]", 0), "is no JSON object");
  expect_refused(file_of("{", 0), "its header is no JSON");
  expect_refused(file_of("{} {}", 0), "its header is no JSON");
  expect_refused(file_of(R"({"w":[[[[1]]]]})", 0), "is nested too deeply");
  expect_refused(file_of(R"({"w":1})", 0), "'w' is no object");
  const std::tuple<const char*, const char*, const char*, const char*> entries[] = {
      {"", shape, offsets, "'w' has no dtype"},
      {R"("dtype":"F31",)", shape, offsets, "unknown dtype 'F31'"},
      {type, "", offsets, "'w' has no list shape"},
      {type, shape, "", "'w' has no list data_offsets"},
      {type, R"("shape":[-2],)", offsets, "has a value that is no count"},
      {type, R"("shape":[2.0],)", offsets, "has a value that is no count"},
      {type, R"("shape":[4294967296,4294967296],)", offsets, "is too large"},
      {type, R"("shape":[9223372036854775808],)", offsets, "is too large"},
      {type, R"("shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],)", offsets, "has 17 dimensions"},
      {type, shape, R"("data_offsets":[0],)", "data_offsets has 1 values"},
      {type, shape, R"("data_offsets":[8,0],)", "is cut or damaged: 'w' is at bytes 8 to 0, and there are 8 bytes"},
      {type, shape, R"("data_offsets":[4,12],)", "is cut or damaged: 'w' is at bytes 4 to 12, and there are 8 bytes"},
      {type, R"("shape":[3],)", offsets, "has 8 bytes where its shape makes 12"}};
  for (const auto& [of_type, of_shape, of_offsets, reason] : entries) {
    expect_refused(file_of(entry(of_type, of_shape, of_offsets), 8), reason);
  }
  expect_refused(file_of(entry(type, shape, offsets), 9), "it has 9 bytes of data, of which the arrays use 8");
}

TEST_F(Safetensors, ArraysThatOverlapLeaveGapsOrShareANameAreRefused) {
  const auto entry = [](const char* name, int begin, int end) {
    return fmt::format(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name, end - begin, begin, end);
  };
  expect_refused(file_of(fmt::format("{{{},{}}}", entry("a", 0, 4), entry("b", 3, 8)), 8), "'b' begins at byte 3");
  expect_refused(file_of(fmt::format("{{{},{}}}", entry("a", 0, 4), entry("b", 5, 8)), 8), "'b' begins at byte 5");
  expect_refused(file_of(fmt::format("{{{},{}}}", entry("a", 0, 4), entry("a", 4, 8)), 8), "has two arrays 'a'");
}

TEST_F(Safetensors, ALongHeaderIsRefusedBeforeItIsRead) {
  const std::uint64_t length = max_safetensors_header_bytes + 1;
  write_text(path(), std::string(reinterpret_cast<const char*>(&length), sizeof length));
  std::filesystem::resize_file(path(), 2 * length);
  const auto error = error_of([&] { SafetensorsFile opened(path()); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("the limit is 4194304"));
}

TEST_F(Safetensors, MutatedFilesAreReadOrRefusedWithOneLine) {
  const std::string valid = read_text(sample);
  std::mt19937 draw(1);
  for (int i = 0; i < 500; ++i) {
    std::string bytes = valid;
    for (unsigned change = 0; change <= draw() % 3; ++change) bytes[draw() % bytes.size()] = static_cast<char>(draw());
    if (i % 5 == 0) bytes.resize(draw() % bytes.size());
    write_text(path(), bytes);
    try {
      const SafetensorsFile file(path());
      for (const SafetensorsEntry& entry : file.entries()) file.read(entry);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::data) << error.what();
      ASSERT_THAT(error.what(), ::testing::Not(HasSubstr("\n")));
    }
  }
}

TEST_F(Safetensors, LeavesTheOldFileUntilTheNewIsWhole) {
  const std::vector<NamedArray> arrays{{"a", {100}, std::vector<float>(100)}};
  write_text(path(), "old");
  {
    const FileSizeLimit limit(10);
    EXPECT_EQ(error_of([&] { write_safetensors(path(), arrays); }).code(), ExitCode::io);
  }
  EXPECT_EQ(read_text(path()), "old");
  EXPECT_EQ(entry_count(directory_.path()), 1u);
}

}  // namespace
}  // namespace carillon::testing
