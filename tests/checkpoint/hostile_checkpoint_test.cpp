// Tests with malicious checkpoints that have correct checksums: the loader must reject them with one line, and must
// read no other file.
#include <gmock/gmock.h>
#include <hdf5.h>

#include <cstring>

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_format.h"
#include "src/core/crc32c.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::read_text;
using testing::small_state;
using testing::write_text;

class HostileCheckpoint : public ::testing::Test {
 protected:
  /// Applies `change` to the HDF5 image of a checkpoint of the small state, and writes a header that matches the
  /// changed image. Returns the path of the checkpoint.
  template <typename Change>
  std::filesystem::path forged(Change change) const {
    const auto path = directory_.path() / "c.h5";
    write_checkpoint(path, small_state());
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    change(file);
    H5Fclose(file);
    std::string bytes = read_text(path);
    const auto crc_of = [&](std::size_t begin, std::size_t count) {
      return crc32c(std::as_bytes(std::span(bytes).subspan(begin, count)));
    };
    const auto put = [&](std::size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
    put(12, crc_of(512, bytes.size() - 512));
    put(16, std::uint64_t{bytes.size() - 512});
    put(508, crc_of(0, 508));
    write_text(path, bytes);
    return path;
  }

  template <typename Change>
  void expect_refused(const std::string& reason, Change change) const {
    const auto path = forged(change);
    const auto error = error_of([&] { read_checkpoint(path); });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    EXPECT_THAT(error.what(), HasSubstr(reason));
  }

  /// Adds a dataset of `extent` floats. `properties` determine how HDF5 stores it.
  static void add_array(hid_t file, const char* name, hid_t properties, hsize_t extent = 2) {
    const hid_t space = H5Screate_simple(1, &extent, nullptr);
    const hid_t data = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    ASSERT_GE(data, 0);
    H5Dclose(data);
    H5Sclose(space);
    if (properties != H5P_DEFAULT) H5Pclose(properties);
  }

  static void set_options(hid_t file, const std::string& text) {
    H5Adelete(file, "options");
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    const hid_t attribute = H5Acreate2(file, "options", type, space, H5P_DEFAULT, H5P_DEFAULT);
    const char* pointer = text.c_str();
    H5Awrite(attribute, type, &pointer);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
  }

  static void set_integer(hid_t file, const char* name, hid_t type, std::uint64_t value) {
    const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    EXPECT_GE(H5Awrite(attribute, type, &value), 0);
    H5Aclose(attribute);
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(HostileCheckpoint, WithALinkToElsewhereIsRefused) {
  const auto other = (directory_.path() / "other.h5").string();
  write_checkpoint(other, small_state());
  expect_refused("extra is a link to elsewhere", [&](hid_t file) {
    H5Lcreate_external(other.c_str(), "/variables/layer1/biases", file, "variables/extra", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("layer1/extra is a link to elsewhere", [](hid_t file) {
    H5Lcreate_soft("/moving_averages/layer1/biases", file, "variables/layer1/extra", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("variables is a link to elsewhere", [&](hid_t file) {
    H5Ldelete(file, "variables", H5P_DEFAULT);
    H5Lcreate_external(other.c_str(), "/variables", file, "variables", H5P_DEFAULT, H5P_DEFAULT);
  });
}

TEST_F(HostileCheckpoint, WithDataInAnotherFileIsRefused) {
  const auto raw = (directory_.path() / "raw").string();
  write_text(raw, std::string(8, '\1'));
  expect_refused("array extra has its data in another file", [&](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(properties, raw.c_str(), 0, 8);
    add_array(file, "variables/extra", properties);
  });
  expect_refused("array extra has its data in another file", [&](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t extent = 2;
    const hid_t space = H5Screate_simple(1, &extent, nullptr);
    H5Pset_virtual(properties, space, (directory_.path() / "other.h5").c_str(), "/variables/layer1/biases", space);
    H5Sclose(space);
    add_array(file, "variables/extra", properties);
  });
}

TEST_F(HostileCheckpoint, WithLargeOrFilteredChunksIsRefused) {
  const auto chunked = [](hsize_t elements, bool deflate) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 1, &elements);
    if (deflate) H5Pset_deflate(properties, 9);
    return properties;
  };
  expect_refused("array extra has chunks of more than 262144 values", [&](hid_t file) {
    const hsize_t extent = 2, unlimited = H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(1, &extent, &unlimited), properties = chunked(400'000'000, false);
    H5Dclose(H5Dcreate2(file, "variables/extra", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    H5Pclose(properties);
    H5Sclose(space);
  });
  expect_refused("array extra has a filter that no checkpoint has",
                 [&](hid_t file) { add_array(file, "variables/extra", chunked(2, true)); });
}

TEST_F(HostileCheckpoint, WithAnObjectOfTwoNamesIsRefused) {
  expect_refused("layer1 is there under 2 names", [](hid_t file) {  // the group contains itself
    H5Lcreate_hard(file, "variables/layer1", file, "variables/layer1/again", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("again is there under 2 names", [](hid_t file) {
    H5Lcreate_hard(file, "variables/layer1/biases", file, "variables/again", H5P_DEFAULT, H5P_DEFAULT);
  });
}

TEST_F(HostileCheckpoint, OfThousandsOfGroupsIsRefusedAtTheFirstEmptyOne) {
  expect_refused("group g0/ is empty", [](hid_t file) {
    for (int i = 0; i < 10000; ++i) {
      const auto name = fmt::format("variables/g{}", i);
      H5Gclose(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
  });
}

TEST_F(HostileCheckpoint, WithDeeplyNestedOptionsIsRefused) {
  constexpr std::size_t depth = 200'000;
  expect_refused("attribute options nests deeper than 16", [](hid_t file) {
    set_options(file, "{\"seed\":" + std::string(depth, '[') + std::string(depth, ']') + "}");
  });
}

TEST_F(HostileCheckpoint, BracketsInTextsAreNoNesting) {
  const std::string options = R"({"data": ["\"[[[[[[[[[[[[[[[[[[[[[[[[", "\\"], "cache": {"a": [1]}})";
  EXPECT_EQ(read_checkpoint(forged([&](hid_t file) { set_options(file, options); })).options_json, options);
}

TEST_F(HostileCheckpoint, WithAnImpossiblePositionIsRefused) {
  for (const std::uint64_t value : {~std::uint64_t{0}, max_stream_position + 1}) {
    expect_refused(fmt::format("attribute stream_position is {}, expected 0 to 9223372036854775808", value),
                   [&](hid_t file) { set_integer(file, "stream_position", H5T_NATIVE_UINT64, value); });
  }
  for (const std::int64_t value : {std::int64_t{-1}, max_global_step + 1}) {
    expect_refused(fmt::format("attribute global_step is {}, expected 0 to 9007199254740992", value), [&](hid_t file) {
      set_integer(file, "global_step", H5T_NATIVE_INT64, static_cast<std::uint64_t>(value));
    });
  }
}

TEST_F(HostileCheckpoint, WithALongNameIsRefused) {
  const std::string name(max_name_bytes + 1, 'n');
  expect_refused("at most 1024 expected",
                 [&](hid_t file) { add_array(file, ("/variables/" + name).c_str(), H5P_DEFAULT); });
  expect_refused("optimizer slot name 'nnn", [&](hid_t file) {
    H5Gclose(H5Gcreate2(file, ("/optimizer/" + name).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
}

TEST_F(HostileCheckpoint, WithAnEndlessTextIsRefused) {
  expect_refused("attribute options has", [](hid_t file) { set_options(file, std::string(17 << 20, 'x')); });
}

}  // namespace
}  // namespace carillon
