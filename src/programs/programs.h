// The main functions of the programs that are links to the program `carillon`.
#pragma once

namespace carillon {

// Each returns the exit code of the program. The first argument is the program's name.
int carillon_predict_main(int argc, char** argv);
int checkpoint_tool_main(int argc, char** argv);
int tfrecord_convert_main(int argc, char** argv);
int tfrecord_inspect_main(int argc, char** argv);

}  // namespace carillon
