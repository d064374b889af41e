#include "src/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <hdf5.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "src/checkpoint/checkpoint_format.h"
#include "src/core/crc32c.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using testing::entry_count;
using testing::error_of;
using testing::FileSizeLimit;
using ::testing::HasSubstr;
using testing::read_text;
using testing::small_state;
using testing::TemporaryDirectory;
using testing::write_text;

NamedArray ramp(const std::string& name, std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
  NamedArray array{name, std::move(shape), std::vector<float>(count)};
  std::iota(array.values.begin(), array.values.end(), 0.0f);
  return array;
}

/// Parses `bytes`, the content of a whole file, as read_checkpoint does.
CheckpointState decode(std::span<const std::byte> bytes) {
  return parse_hdf5_image(verified_image(bytes, "checkpoint x"), "checkpoint x");
}

/// Returns `file` with a header that matches its HDF5 image. The image was changed before, so only the parser of the
/// image can find the change.
std::vector<std::byte> with_new_header(std::vector<std::byte> file) {
  const auto put = [&](std::size_t at, auto value) { std::memcpy(file.data() + at, &value, sizeof value); };
  put(12, crc32c(std::span(file).subspan(512)));
  put(16, std::uint64_t{file.size() - 512});
  put(508, crc32c(std::span(file).first(508)));
  return file;
}

/// Writes the small state to a checkpoint, and lets `change` modify the HDF5 image, as a user's tool could. Returns the
/// error with which the loader rejects the checkpoint.
template <typename Change>
Error error_after(Change change) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "changed.h5";
  write_checkpoint(path, small_state());
  const auto file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  change(file);
  H5Fclose(file);
  const auto text = read_text(path);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  const auto changed = with_new_header({bytes, bytes + text.size()});
  return error_of([&] { decode(changed); });
}

TEST(Checkpoint, BuffersComeBack) {
  CheckpointState state = small_state();
  EXPECT_TRUE(decode(encode_checkpoint(state)).buffers.empty());
  state.buffers = {ramp("norm1/moving_mean", {3}), ramp("norm1/moving_variance", {3})};
  const CheckpointState loaded = decode(encode_checkpoint(state));
  ASSERT_EQ(loaded.buffers.size(), 2u);
  EXPECT_EQ(loaded.buffers[1].name, "norm1/moving_variance");
  EXPECT_EQ(loaded.buffers[1].values, state.buffers[1].values);
}

TEST(Checkpoint, ComesBackAsItWasWritten) {
  const TemporaryDirectory directory;
  const auto path = checkpoint_path(directory.path(), 7);
  EXPECT_EQ(path.filename(), "model.ckpt-7.h5");
  write_checkpoint(path, small_state());
  expect_equal(read_checkpoint(path), small_state());
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

TEST(Checkpoint, KeepsShapesThatChunksDoNotDivide) {
  const TemporaryDirectory directory;
  auto state = small_state(std::int64_t{1} << 40);
  state.variables = {ramp("a", {7, 100003}), ramp("b/c/d", {5, 5, 3, 64}), ramp("e", {600001}), ramp("f", {0, 3}),
                     ramp("g", {}),          ramp("h", {3, 1, 300000})};
  state.moving_averages.clear();
  state.optimizer["empty"] = {};
  const auto path = checkpoint_path(directory.path(), state.global_step);
  write_checkpoint(path, state);
  expect_equal(read_checkpoint(path), state);
}

/// HDF5 stores the members of a group in a tree. Groups of up to 8 members need one node. The larger groups of this
/// test need a tree with one or two more levels.
TEST(Checkpoint, KeepsAnyNumberOfArraysInOneGroup) {
  for (const int count : {8, 9, 45, 46, 400, 1500}) {
    auto state = small_state();
    state.variables.clear();
    for (int i = 0; i < count; ++i) state.variables.push_back({fmt::format("{:05}", i), {1}, {static_cast<float>(i)}});
    state.variables.push_back({"z/a/b", {1}, {1}});
    expect_equal(decode(encode_checkpoint(state)), state);
    for (auto& array : state.variables) array.name = "layer" + array.name + "/weights";
    expect_equal(decode(encode_checkpoint(state)), state);
  }
}

TEST(Checkpoint, KeepsOptionsBeyondAnAttributesUsual64Kib) {
  auto state = small_state();
  state.options_json = "\"" + std::string(1 << 20, 'x') + "\"";
  EXPECT_EQ(decode(encode_checkpoint(state)).options_json, state.options_json);
}

TEST(Checkpoint, KeepsNanAndInfinity) {
  auto state = small_state();
  state.variables = {{"x", {2}, {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}}};
  const auto values = decode(encode_checkpoint(state)).variables.at(0).values;
  EXPECT_EQ(std::memcmp(values.data(), state.variables[0].values.data(), 8), 0);
}

TEST(Checkpoint, OfOneStateIsAlwaysTheSameBytes) {
  auto state = small_state();
  state.variables.push_back(ramp("z", {7, 100003}));
  mallopt(M_PERTURB, 0x55);  // uninitialised memory would differ between the two files
  const auto first = encode_checkpoint(state);
  mallopt(M_PERTURB, 0xaa);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // times that are stored in the file would also differ
  const auto second = encode_checkpoint(state);
  mallopt(M_PERTURB, 0);
  EXPECT_TRUE(first == second);
}

TEST(Checkpoint, WithAnyFlippedBitIsRefused) {
  auto bytes = encode_checkpoint(small_state());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto bit = std::byte{1} << (i % 8);
    bytes[i] ^= bit;
    EXPECT_EQ(error_of([&] { decode(bytes); }).code(), ExitCode::data) << "byte " << i;
    bytes[i] ^= bit;
  }
  EXPECT_NO_THROW(decode(bytes));
}

TEST(Checkpoint, CutAnywhereIsRefused) {
  const auto bytes = encode_checkpoint(small_state());
  for (std::size_t count = 0; count < bytes.size(); ++count) {
    EXPECT_EQ(error_of([&] { decode(std::span(bytes).first(count)); }).code(), ExitCode::data) << count << " bytes";
  }
}

TEST(Checkpoint, DamagedOnDiskIsRefusedNamingTheFile) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "c.h5";
  write_checkpoint(path, small_state());
  const auto whole = read_text(path);
  const auto refused = [&](const std::string& text) {
    write_text(path, text);
    const auto error = error_of([&] { read_checkpoint(path); });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
  };
  refused("");
  refused(whole.substr(0, 100));
  refused(whole.substr(0, 512));
  refused(whole.substr(0, whole.size() - 1));
  refused(whole + "x");
  auto flipped = whole;
  flipped[2000] ^= 0x10;
  refused(flipped);
}

TEST(Checkpoint, WithAHugeAnnouncedLengthIsRefusedBeforeMemoryIsTaken) {
  auto bytes = encode_checkpoint(small_state());
  const std::uint64_t length = std::uint64_t{1} << 62;
  std::memcpy(bytes.data() + 16, &length, sizeof length);
  const auto crc = crc32c(std::span(bytes).first(508));
  std::memcpy(bytes.data() + 508, &crc, sizeof crc);
  const TemporaryDirectory directory;
  write_text(directory.path() / "c.h5", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  EXPECT_EQ(error_of([&] { read_checkpoint(directory.path() / "c.h5"); }).code(), ExitCode::data);
}

TEST(Checkpoint, BeyondTheSizeAskedForIsRefusedBeforeMemoryIsTaken) {
  const TemporaryDirectory directory;
  const auto path = checkpoint_path(directory.path(), 7);
  write_checkpoint(path, small_state());
  EXPECT_NO_THROW(read_checkpoint(path, std::filesystem::file_size(path)));
  // The file is sparse: it is small on the disk, but its image has 256 GiB.
  auto header = read_text(path).substr(0, 512);
  const std::uint64_t length = std::uint64_t{1} << 38;
  std::memcpy(header.data() + 16, &length, sizeof length);
  const auto crc = crc32c(std::as_bytes(std::span(header)).first(508));
  std::memcpy(header.data() + 508, &crc, sizeof crc);
  write_text(path, header);
  std::filesystem::resize_file(path, 512 + length);
  const auto error = error_of([&] { read_checkpoint(path, std::uint64_t{1} << 20); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(
      error.what(),
      HasSubstr("has 274877907456 bytes, and at most 1048576 are read here: it is probably of another network"));
}

TEST(Checkpoint, BeyondTheSizeAskedForIsNotReplacedByAnOlderOne) {
  const TemporaryDirectory directory;
  CheckpointState large = small_state();
  large.variables.push_back({"more", {4096}, std::vector<float>(4096)});
  write_checkpoint(checkpoint_path(directory.path(), 5), small_state());
  const std::uintmax_t limit = std::filesystem::file_size(checkpoint_path(directory.path(), 5));
  write_checkpoint(checkpoint_path(directory.path(), 7), large);
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& line) { warnings.push_back(line); };
  EXPECT_THROW(read_newest_checkpoint(directory.path(), warn, limit), RefusedCheckpoint);
  EXPECT_TRUE(warnings.empty());
}

TEST(Checkpoint, WithoutCarillonsHeaderIsRefusedSayingSo) {
  const auto bytes = encode_checkpoint(small_state());
  const auto error = error_of([&] { decode(std::span(bytes).subspan(512)); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("HDF5 file without Carillon's header"));
}

TEST(Checkpoint, OfAnotherFormatIsRefusedNamingBothVersions) {
  for (const std::int64_t version : {1, 9}) {
    const auto error = error_after([&](hid_t file) {
      const auto attribute = H5Aopen(file, "format_version", H5P_DEFAULT);
      H5Awrite(attribute, H5T_NATIVE_INT64, &version);
      H5Aclose(attribute);
    });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("its format_version is {}, this program reads only 4", version)));
  }
}

TEST(Checkpoint, WithoutAnAttributeIsRefusedNamingIt) {
  const auto error = error_after([](hid_t file) { H5Adelete(file, "seed"); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("no attribute seed"));
}

TEST(Checkpoint, WithAnAttributeOfAnotherTypeIsRefused) {
  const auto error = error_after([](hid_t file) {
    H5Adelete(file, "global_step");
    const auto space = H5Screate(H5S_SCALAR);
    H5Aclose(H5Acreate2(file, "global_step", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
  });
  EXPECT_THAT(error.what(), HasSubstr("attribute global_step is not a signed 64-bit integer"));
}

TEST(Checkpoint, WithoutAGroupIsRefusedNamingIt) {
  const auto error = error_after([](hid_t file) { H5Ldelete(file, "moving_averages", H5P_DEFAULT); });
  EXPECT_THAT(error.what(), HasSubstr("no group moving_averages"));
}

TEST(Checkpoint, WithAnArrayOfAnotherTypeIsRefused) {
  const auto error = error_after([](hid_t file) {
    const hsize_t extent = 2;
    const auto space = H5Screate_simple(1, &extent, nullptr);
    H5Dclose(H5Dcreate2(file, "variables/extra", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
  });
  EXPECT_THAT(error.what(), HasSubstr("array extra is not of float32"));
}

TEST(Checkpoint, WithAnArrayLargerThanTheFileIsRefused) {
  const auto error = error_after([](hid_t file) {  // HDF5 stores no values for an array that was never written
    const std::array<hsize_t, 2> extents = {hsize_t{1} << 30, hsize_t{1} << 30};
    const auto space = H5Screate_simple(2, extents.data(), nullptr);
    H5Dclose(H5Dcreate2(file, "variables/extra", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
  });
  EXPECT_THAT(error.what(), HasSubstr("array extra of shape [1073741824,1073741824] is larger than the file"));
}

TEST(Checkpoint, ThatIsMissingIsNoInput) {
  const auto error = error_of([] { read_checkpoint("/nowhere/model.ckpt-1.h5"); });
  EXPECT_EQ(error.code(), ExitCode::no_input);
  EXPECT_THAT(error.what(), HasSubstr("/nowhere/model.ckpt-1.h5"));
}

TEST(Checkpoint, ThatIsNoPlainFileIsRefusedAtOnce) {
  const TemporaryDirectory directory;
  const auto fifo = directory.path() / "c.h5";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::filesystem::path& path : {directory.path(), fifo, std::filesystem::path("/dev/zero")}) {
    const auto error = error_of([&] { read_checkpoint(path); });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
  }
}

TEST(Checkpoint, ThatCannotBeWrittenLeavesTheOldOneAndNoTemporary) {
  const TemporaryDirectory directory;
  const auto path = checkpoint_path(directory.path(), 7);
  write_checkpoint(path, small_state());
  auto other = small_state();
  other.seed = 1;
  for (const rlim_t bytes : {0u, 1u, 512u, 1000u}) {
    const FileSizeLimit limit(bytes);
    const auto error = error_of([&] { write_checkpoint(path, other); });
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ": File too large"));
  }
  expect_equal(read_checkpoint(path), small_state());
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

TEST(Checkpoint, ThatCannotTakeItsNameLeavesNoTemporary) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "c.h5" / "occupied");
  EXPECT_EQ(error_of([&] { write_checkpoint(directory.path() / "c.h5", small_state()); }).code(), ExitCode::io);
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

TEST(Checkpoint, InAMissingDirectoryIsAnIoErrorNamingIt) {
  const auto error = error_of([] { write_checkpoint("/nowhere/c.h5", small_state()); });
  EXPECT_EQ(error.code(), ExitCode::io);
  EXPECT_THAT(error.what(), HasSubstr("/nowhere/c.h5"));
}

TEST(Checkpoint, OutlivesAKillOfItsWriterAtAnyTime) {
  const TemporaryDirectory directory;
  const auto path = checkpoint_path(directory.path(), 7);
  write_checkpoint(path, small_state());
  const auto bytes = encode_checkpoint(small_state());
  for (int round = 0; round < 30; ++round) {
    const auto child = ::fork();
    if (child == 0) {
      for (;;) write_checkpoint(path, small_state());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(read_text(path).size(), bytes.size());
    EXPECT_NO_THROW(read_checkpoint(path));
    remove_stale_temporaries(directory.path());
    EXPECT_EQ(entry_count(directory.path()), 1u);
  }
}

}  // namespace
}  // namespace carillon
