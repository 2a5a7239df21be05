"""Stubs of the contract, generated as any user of Python does. Whoever imports it is run with ADDRESS FOLDER …"""
import os
import subprocess
import sys

address, folder = sys.argv[1].removeprefix("http://"), sys.argv[2]
here = os.path.dirname(os.path.abspath(__file__))
contract = os.path.join(here, "..", "..", "proto")
files = ["postrider/v1/email.proto", "postrider/v1/email_service.proto", "error_details.proto"]
paths = [f"-I{contract}", f"-I{here}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *paths, *files], check=True)
sys.path.insert(0, folder)
