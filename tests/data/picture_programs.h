// Fixture of the tests that run `tfrecord_convert images` as a user does.
#pragma once

#include "carillon/images/decode.h"
#include "src/data/convert/picture_list.h"
#include "src/data/decode/dataset_info.h"
#include "tests/data/program_fixture.h"

namespace carillon {

class PictureProgramsTest : public ProgramFixture {
 protected:
  static std::string picture(const std::string& name) { return read_bytes(sample_path("../pictures/" + name)); }

  void put(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((directory_ / name).parent_path());
    write(name, bytes);
  }
  /// Writes `count` pictures of each of two classes.
  void put_classes(int count) const {
    for (int i = 0; i < count; ++i) {
      put(fmt::format("in/bee/{:03}.jpg", i), picture("colour.jpg"));
      put(fmt::format("in/ant/deep/{:03}.PNG", i), picture("colour.png"));
    }
  }
  std::string convert(const std::string& more = "") const {
    return "tfrecord_convert images --input " + path("in") + " --output " + path("out") + " " + more;
  }

  struct Stored {
    std::string file, text, format, name;
    std::int64_t label = 0, height = 0, width = 0;
  };
  std::vector<Stored> records(const std::string& name) const {
    std::vector<Stored> all;
    RecordReader reader(path("out/" + name));
    for (Record record; reader.next(record);) {
      proto::Example example;
      EXPECT_TRUE(example.ParseFromArray(record.data.data(), static_cast<int>(record.data.size())));
      auto& features = *example.mutable_features()->mutable_feature();
      const auto text = [&](const char* key) { return features[key].bytes_list().value(0); };
      const auto number = [&](const char* key) { return features[key].int64_list().value(0); };
      all.push_back({text("image/encoded"), text("image/class/text"), text("image/format"), text("image/filename"),
                     number("image/class/label"), number("image/height"), number("image/width")});
    }
    return all;
  }
};

}  // namespace carillon
