#include "src/cli/commands/commands.h"

int main(int argc, char** argv) { return carillon::run_carillon(argc, argv); }
